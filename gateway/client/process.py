"""A private Muster: ``muster up`` in a process of its own that ends when this process does.

Nothing of it is in this process: no thread, no signal handler, no child. See :mod:`muster.gateway.client.keeper`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import select
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.actors.runtime.ray.imports import environment_to_import
from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import NotRunning, NotStarted
from muster.gateway.client.http import bases
from muster.gateway.client.on_ray import without_ray
from muster.gateway.client.run_state import holder

_MUSTER = (sys.executable, "-P", "-m", "muster.gateway.cli.main")
UP, DOWN = (*_MUSTER, "up"), (*_MUSTER, "down")
_KEEPER = Path(__file__).with_name("keeper.py")
_STOP_S = 60.0
_PAUSE_S = 0.1
_END_S = 30.0
"""Time for what the keeper does after ``muster up`` has ended."""


def run(
    storage: Path | str | None = None,
    *,
    gateways: int = 1,
    properties: Mapping[str, str] = {},
    start_timeout_s: float = 120,
) -> Cluster:
    """Start a private Muster on this machine that ends with the ``with`` block or with this process, however it ends.

    Without ``storage``, data are in a temporary directory that is removed. ``properties`` are those of
    docs/configuration.md; ports are free ones unless ``listeners`` has others. Any thread may call it; no signal
    handler is set, and Ray is not touched in this process. It blocks for some seconds: with asyncio, use
    ``async with await asyncio.to_thread(muster.run) as kafka``. Processes that this one forks neither keep it running
    nor end it. Raises NotStarted, with the end of the output.

    It has a Ray of its own, which refuses strangers. A plain ``ray.init()`` does not see it, but
    ``ray.init(address="auto")`` may choose it if no other Ray runs: give an address, or none.
    """
    if storage is not None:
        await_release(Path(storage), start_timeout_s)
    port = {} if "listeners" in properties else {"--port": "0"}
    up = MusterUp({"--gateways": str(gateways), **port}, storage, properties, without_ray(environment_to_import()))
    ready = up.started(start_timeout_s)
    return Cluster(ready.bootstrap, ready.http, starter=up)


def await_release(storage: Path, timeout_s: float) -> None:
    """Wait while the ``muster up`` of a program that has ended, of this module, still stops on that storage."""
    until_s = time.monotonic() + timeout_s
    while (pid := holder(storage)) is not None and _is_abandoned(pid) and time.monotonic() < until_s:
        time.sleep(_PAUSE_S)


def _is_abandoned(pid: int) -> bool:
    """Whether the process is that of a keeper whose program has ended."""
    import psutil  # it takes long, and few storages are in use

    try:
        command = psutil.Process(pid).parent().cmdline()
        return str(_KEEPER) in command and psutil.Process(int(command[-1])).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except (AttributeError, psutil.Error):
        return False


@dataclass(frozen=True, slots=True)
class Ready:
    """Where a Muster serves."""

    bootstrap: str
    http: tuple[str, ...]

    @classmethod
    def from_line(cls, line: str) -> Ready:
        """Read the line that ``muster up`` prints."""
        found = dict(part.split("=", 1) for part in shlex.split(line) if "=" in part)
        return cls(found["bootstrap"], bases(found["metrics"].split(",")))


class MusterUp:
    """A ``muster up`` that is stopped when this process ends, in whatever way."""

    def __init__(
        self,
        options: Mapping[str, str],
        storage: Path | str | None,
        properties: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        """Start it. ``options`` with an empty value are flags. Raises NotStarted."""
        self._pid = os.getpid()
        self._reading = threading.Lock()
        self._ended: dict[str, Any] | None = None
        self._unread = b""
        words = (word for option in options.items() for word in option if word)
        request = {
            "command": [*UP, *words],
            "storage": None if storage is None else str(Path(storage).absolute()),
            "properties": _property_file(properties),
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), str(self._pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            raise NotStarted(f"{sys.executable} cannot be run: {error}") from error
        _running.add(self)
        self._send(request)
        self._process.wait()  # a child of it goes on

    def started(self, timeout_s: float) -> Ready:
        """Return where it serves, as soon as it does. Raises NotStarted, after everything has ended."""
        try:
            with self._reading:
                message = self._receive(time.monotonic() + timeout_s)
                if message is not None and "ended" in message:
                    self._forget(message)
        except BaseException:
            self.stop()
            raise
        if message is not None and "ready" in message:
            return Ready.from_line(message["ready"])
        if message is None:
            self.stop()
            what = f"muster up was not ready after {timeout_s:g} s; give it more time with start_timeout_s"
        else:
            what = f"muster up ended with exit code {message['ended']}"
        raise NotStarted(f"{what}; the end of its output:\n{self.output}" if self.output else what)

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Stop it in order, and kill it after the timeout. Returns when everything has ended; no effect if it has.

        Raises NotRunning in a process that was forked from the one that started it.
        """
        if not self.is_owner:
            raise NotRunning(f"this Muster belongs to the process with pid {self._pid}: call stop() there")
        if self._ended is None:
            self._send({"stop": timeout_s})
            self.wait(timeout_s + _END_S)

    def wait(self, timeout_s: float = math.inf) -> None:
        """Return when it has ended, whoever stopped it, or after the timeout."""
        until_s = time.monotonic() + timeout_s
        with self._reading:
            message: dict[str, Any] | None = {}
            while self._ended is None and message is not None and "ended" not in message:
                message = self._receive(until_s)
            if self._ended is None:
                self._forget(message)

    @property
    def has_ended(self) -> bool:
        """Whether its end has been seen, by ``wait``, ``stop`` or a failed start."""
        return self._ended is not None

    @property
    def exit_code(self) -> Any:
        """Exit code of ``muster up``; None before its end has been seen, or if the keeper was killed."""
        return (self._ended or {}).get("ended")

    @property
    def output(self) -> str:
        """The end of what ``muster up`` wrote; empty before its end has been seen."""
        return str((self._ended or {}).get("output", ""))

    @property
    def is_owner(self) -> bool:
        """Whether this process started it, and was not forked from the one that did."""
        return os.getpid() == self._pid

    def _forget(self, message: dict[str, Any] | None) -> None:
        self._ended = message or {}
        _running.discard(self)
        if message is not None:
            self._await_keeper(time.monotonic() + _END_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, and its last message says why
            os.write(self._process.stdin.fileno(), json.dumps(request).encode() + b"\n")

    def _await_keeper(self, until_s: float) -> None:
        """Return when the keeper, whose last message this was, has ended, or at that time."""
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        while poll.poll(max(0.0, (until_s - time.monotonic()) * 1000)) and os.read(
            self._process.stdout.fileno(), 65_536
        ):
            pass

    def _receive(self, until_s: float) -> dict[str, Any] | None:
        """Return the next message; None if there is none by then. A keeper that failed is a message, too."""
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        while b"\n" not in self._unread or not self._unread.startswith(b"{"):
            left_s = until_s - time.monotonic()
            if not poll.poll(None if math.isinf(left_s) else max(0.0, left_s * 1000)):
                return None
            data = os.read(self._process.stdout.fileno(), 65_536)
            if not data:
                return {"ended": None, "output": self._unread.decode(errors="replace")}
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


_running: set[MusterUp] = set()
"""All that this process has started and not stopped."""


@atexit.register
def _stop_all() -> None:
    """Stop them in order when Python ends, so that the next program finds their storage free."""
    for up in [*_running]:
        if up.is_owner:
            up.stop()


def _property_file(properties: Mapping[str, str]) -> str:
    import javaproperties

    return javaproperties.dumps({name: str(value) for name, value in properties.items()}, timestamp=False)
