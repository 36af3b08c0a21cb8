"""A real ``muster up`` in a process of its own, for tests that need a whole Muster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from muster.actors.runtime.zookeeper import embedded_access
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from pytest_muster import Cluster
from pytest_muster.bound import bound
from tests.status_reader import StatusReader

T = TypeVar("T")

START_S = 240
STOP_S = 60
EVENT_S = 60


def eventually(read: Callable[[], T], good: Callable[[T], bool], what: str, timeout_s: float = EVENT_S) -> T:
    """Read until the value is good. Raises AssertionError with the last value after the timeout.

    For state of another process that has no event to wait for.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            value = read()
            if good(value):
                return value
            last: Any = value
        except Exception as error:  # the reader's own form of "not yet"
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {timeout_s:.0f} s; last: {last!r}")
        time.sleep(0.05)


@dataclass
class Muster(Cluster):
    """``with Muster(storage) as muster``: starts, waits until it serves, stops in order."""

    storage: Path
    arguments: list[str] = field(default_factory=lambda: ["--gateways", "2"])
    properties: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] | None = None
    """The environment of ``muster up`` and of all other commands; None: that of the tests."""
    process: subprocess.Popen[str] | None = None
    ready: dict[str, Any] = field(default_factory=dict)
    _reader: StatusReader | None = field(default=None, repr=False)

    @property
    def bootstrap(self) -> str:
        return ",".join(self.ready["bootstrap"])

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        return tuple(self.ready["metrics"])

    @property
    def command(self) -> list[str]:
        properties = {"console.enable": "false", **self.properties}  # a process less
        sets = [item for name, value in properties.items() for item in ("--set", f"{name}={value}")]
        ready_file = str(self.storage.parent / f"{self.storage.name}.ready")
        return [
            *(sys.executable, "-m", "muster.gateway.cli.main", "up", "--port", "0", "--storage", str(self.storage)),
            *("--ready-file", ready_file),
            *self.arguments,
            *sets,
        ]

    def start(self) -> None:
        log = self.storage.parent / f"{self.storage.name}.log"
        with log.open("a") as stderr:
            self.process = subprocess.Popen(
                bound(self.command),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=self.environment,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("muster ready "), f"{line!r}; log:\n{log.read_text()[-4000:]}"
        self.ready = json.loads((self.storage.parent / f"{self.storage.name}.ready").read_text())

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        self._close_reader()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)

    def kill_everything(self) -> None:
        """SIGKILL ``muster up`` and all its descendants at once."""
        assert self.process is not None
        self._close_reader()
        family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in family:
            process.kill()
        self.process.wait(STOP_S)
        psutil.wait_procs(family[1:], timeout=STOP_S)

    def run(self, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run another muster command on this cluster to its end."""
        command = [sys.executable, "-m", "muster.gateway.cli.main", *arguments, "--storage", str(self.storage)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=self.environment)

    def cli(self, *arguments: str, check: bool = True) -> str:
        """Output of another muster command on this cluster."""
        done = self.run(*arguments)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout if check else done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        """Return the status like ``muster status --json``, at less cost. Raises AssertionError if it fails now."""
        if self._reader is None:
            self._reader = StatusReader(self.storage, self.environment)
        return self._reader.read()

    def zookeeper(self) -> ZooKeeperClient:
        """Return a client of the cluster's own ZooKeeper that may do what Muster may."""
        return connect(self.ready["zookeeper"], embedded_access(self.storage / "zookeeper"), timeout_s=15)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def actors(self) -> dict[str, dict[str, Any]]:
        """Return the actors by name. Waits while the controller does not respond: a busy machine may stand still."""
        found = eventually(self.status, bool, "the controller responds")
        return {actor["name"]: actor for actor in found["actors"]}

    def kill_actor(self, name: str) -> int:
        """SIGKILL the actor's process; return its pid."""
        pid: int = self.actors()[name]["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def until_back(self, name: str, old_pid: int) -> dict[str, Any]:
        """Wait until the actor serves in a new process."""
        return eventually(
            lambda: self.actors()[name],
            lambda actor: actor["state"] == "alive" and actor["pid"] != old_pid,
            f"{name} serves again",
        )

    def until_all_serve(self) -> None:
        """Wait until every actor, also the standby, serves by itself."""
        eventually(
            lambda: {actor["state"] for actor in self.actors().values()}, lambda states: states == {"alive"}, "all"
        )

    def __enter__(self) -> Muster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        self._close_reader()
        if self.process.poll() is None:
            self.stop()
