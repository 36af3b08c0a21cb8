"""A Muster for tests: one that is already running, or ``muster up`` in a process of its own.

For pytest there is the fixture ``muster`` (``pytest_muster.plugin``); everywhere else::

    with Muster(Path(directory) / "storage") as muster:
        ...muster.bootstrap...
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING

from pytest_muster.bound import bound
from pytest_muster.command import NoMusterCommand, muster_command
from pytest_muster.faults import FaultClient
from pytest_muster.topics import create_topic

if TYPE_CHECKING:
    from typing_extensions import Self

START_TIMEOUT_S = 120.0
_STOP_S = 60.0
_ADMIN_S = 60.0
_LOG_LINES = 25
_READY = "muster ready "

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "console.enable": "false",
        "fault.injection.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
    }
)
"""Differences from Muster's defaults: faults may be injected, groups settle at once, and there are few processes.

No console is among them."""


class MusterNotStarted(RuntimeError):
    """``muster up`` did not become ready; the message has the command and the end of its output."""


class Cluster:
    """A running Muster, as tests use it. Subclasses know its addresses."""

    _numbers = itertools.count(1)

    @property
    def bootstrap(self) -> str:
        """For ``bootstrap.servers``: HOST:PORT of each gateway, with commas."""
        raise NotImplementedError

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        """Each gateway's Prometheus metrics."""
        raise NotImplementedError

    @property
    def http_url(self) -> str:
        """The HTTP API of the first gateway, without a path."""
        return self.metrics_urls[0][: -len("/metrics")]

    @property
    def faults(self) -> FaultClient:
        """Injects faults into this cluster, and clears them."""
        return FaultClient(*self.metrics_urls)

    def topic(self, name: str | None = None, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and return its name, by default a unique one. Raises TopicNotCreated."""
        name = name or f"topic-{os.getpid()}-{next(self._numbers)}"
        create_topic(self.bootstrap, name, partitions, config or {}, _ADMIN_S)
        return name


class RunningMuster(Cluster):
    """A Muster that is started and stopped elsewhere."""

    def __init__(self, bootstrap: str, http_urls: Sequence[str] = ()) -> None:
        """``http_urls``: of gateways, with or without /metrics; needed only for faults and metrics."""
        self._bootstrap = bootstrap
        bases = (url.strip().rstrip("/") for url in http_urls)
        self._metrics_urls = tuple(url if url.endswith("/metrics") else f"{url}/metrics" for url in bases)

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        if not self._metrics_urls:
            raise RuntimeError("no HTTP address of this Muster was given, in MUSTER_HTTP or --muster-http")
        return self._metrics_urls


class Muster(Cluster):
    """One cluster. A context manager that starts it, and ends all of its processes on exit, however it exits."""

    def __init__(
        self,
        storage: Path,
        *,
        properties: Mapping[str, str] = MappingProxyType({}),
        gateways: int = 1,
        start_timeout_s: float = START_TIMEOUT_S,
        command: str | None = None,
        requirement: str | None = None,
    ) -> None:
        """``properties`` of docs/configuration.md, in addition to :data:`PROPERTIES`. Ports are free ones.

        ``command`` replaces ``muster``. Without it, ``muster`` beside this Python or on PATH is used, or
        ``requirement`` is installed with uvx. Both default to the environment's MUSTER_COMMAND and MUSTER_REQUIREMENT.
        """
        self.storage = Path(storage)
        self.properties: Mapping[str, str] = {**PROPERTIES, **properties}
        """Properties that were set; all others have their defaults."""
        self.log = self.storage.parent / f"{self.storage.name}.log"
        """Output of ``muster up``. The logs of the actors are in ``storage/run/log``."""
        self._gateways = gateways
        self._start_timeout_s = start_timeout_s
        self._given = command or os.environ.get("MUSTER_COMMAND")
        self._requirement = requirement or os.environ.get("MUSTER_REQUIREMENT")
        self._process: subprocess.Popen[str] | None = None
        self._ready: Mapping[str, str] = {}

    @property
    def bootstrap(self) -> str:
        return self._from_ready_line("bootstrap")

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        return tuple(self._from_ready_line("metrics").split(","))

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connect string."""
        return self._from_ready_line("zookeeper")

    def cli(self, *arguments: str) -> str:
        """Output of another ``muster`` command on this cluster. CalledProcessError with its stderr if it fails."""
        command = [*muster_command(self._given, self._requirement), *arguments, "--storage", str(self.storage)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ADMIN_S, check=True)
        return done.stdout

    def start(self) -> None:
        """Start, and return when the cluster serves.

        Raises MusterNotStarted, after everything that was started has ended.
        """
        self.storage.parent.mkdir(parents=True, exist_ok=True)
        try:
            muster = muster_command(self._given, self._requirement)
        except NoMusterCommand as error:
            raise MusterNotStarted(str(error)) from None
        sets = [part for name, value in self.properties.items() for part in ("--set", f"{name}={value}")]
        up = [*muster, "up", "--port", "0", "--gateways", str(self._gateways), "--storage", str(self.storage), *sets]
        try:
            self._ready = self._wait(self._spawn(up), up)
        except BaseException:
            self.stop()
            raise

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                bound(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self._process

    def _wait(self, process: subprocess.Popen[str], command: Sequence[str]) -> Mapping[str, str]:
        lines: list[str] = []
        ready_or_ended = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            with self.log.open("a") as log:
                for line in process.stdout:  # to the end, so that the pipe never fills up
                    if line.startswith(_READY):
                        lines.append(line)
                        ready_or_ended.set()
                    log.write(line)
                    log.flush()
            ready_or_ended.set()

        threading.Thread(target=read, name="muster-up-stdout", daemon=True).start()
        if not ready_or_ended.wait(self._start_timeout_s):
            raise MusterNotStarted(self._explain(f"muster up is not ready after {self._start_timeout_s:g} s", command))
        if not lines:
            code = process.wait(_STOP_S)
            raise MusterNotStarted(self._explain(f"muster up ended with exit code {code}", command))
        return dict(part.split("=", 1) for part in shlex.split(lines[0][len(_READY) :]) if "=" in part)

    def _explain(self, what: str, command: Sequence[str]) -> str:
        tail = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join([f"{what}: {shlex.join(command)}", f"the end of {self.log}:", *tail])

    def stop(self) -> None:
        """End every process, in order if possible; the storage directory stays. May be called again."""
        process, self._process, self._ready = self._process, None, {}
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except BaseException:  # it hangs, or the user presses Ctrl-C again
            for pid in list(_family(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            raise

    def _from_ready_line(self, what: str) -> str:
        if what not in self._ready:
            raise RuntimeError("this Muster is not running")
        return self._ready[what]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _family(pid: int) -> Iterator[int]:
    """Yield the process and, if /proc is available, all its descendants. Muster's own watchdog finds later ones."""
    yield pid
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _family(int(child))
