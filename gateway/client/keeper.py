"""Runs ``muster up`` for another process, and stops it when that process has ended in any way.

A program of its own, stdlib only. It is in a session of its own, and no child of that process: what a terminal, a
notebook or Ray sends to a group of processes, or to children, does not reach it. The kernel reports the other
process's end (pidfd, Linux 5.3; before, it looks twice a second). ``muster up`` gets SIGTERM if the keeper itself is
killed. What ``muster up`` leaves becomes a child of the keeper (PR_SET_CHILD_SUBREAPER), which removes its temporary
directory only when none is left.

usage: keeper.py PID, started by the process with that id. Each line of stdin and stdout is a JSON object.
stdin: first {"command": [...], "storage": PATH or null, "properties": TEXT}; null is a directory in the temporary one.
Later {"stop": SECONDS}: stop ``muster up``, and kill it if it takes longer.
stdout: {"ready": LINE}, and at the end {"ended": EXIT_CODE, "output": TEXT}, the end of what ``muster up`` wrote.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_READY = b"muster ready "
_STOP_S = 60.0
"""Time for ``muster up`` to stop after the end of the other process."""
_LEAVE_S = 20.0
"""Time for the processes that ``muster up`` leaves: its watchdog ends them."""
_PAUSE_S = 0.02
_POLL_S = 0.5
_TAIL_LINES, _TAIL_BYTES = 25, 16_384
_PDEATHSIG, _CHILD_SUBREAPER = 1, 36
"""Options of prctl(2)."""
_libc = ctypes.CDLL(None)


class Other:
    """The process that ``muster up`` is run for."""

    def __init__(self, pid: int) -> None:
        """Take the pid of this process's parent. Raises ProcessLookupError if it has ended."""
        self._pid = pid
        try:
            self.fd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.fd = -1
        self._started = self._start()
        if os.getppid() != pid:
            raise ProcessLookupError(pid)

    @property
    def poll_s(self) -> float:
        """How often to look; never if the kernel reports its end."""
        return math.inf if self.fd >= 0 else _POLL_S

    def has_ended(self) -> bool:
        """Whether it has ended, as far as that has to be looked up."""
        return self.fd < 0 and self._start() != self._started

    def _start(self) -> bytes | None:
        """Return its time of start, by which another process with the same pid is told apart; None if it has ended."""
        try:
            state, *fields = Path(f"/proc/{self._pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if state in (b"Z", b"X") else fields[18]


class Keeper:
    """One ``muster up``, from the first request to its end."""

    def __init__(self, other: Other) -> None:
        self._other = other
        self._folder = Path(tempfile.mkdtemp(prefix="muster-run-"))
        self._log = (self._folder / "muster-up.log").open("ab", buffering=0)
        self._up: int | None = None
        self._code: int | None = None
        self._failure = ""
        self._kill_at_s = math.inf
        self._rests: dict[int, bytes] = {}
        self._poll = select.poll()
        self._readers: dict[int, Callable[[bytes], None]] = {}

    def run(self) -> None:
        """Return when everything has ended, and the temporary directory is removed."""
        signals, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # only what has a handler wakes the loop
        self._read(signals, self._on_signals)
        self._read(0, self._on_request)
        if self._other.fd >= 0:
            self._poll.register(self._other.fd, select.POLLIN)
        try:
            while self._code is None:
                self._turn()
            self._end_others()
            output = self._failure or self._tail()
        finally:
            self._remove_folder()
        _send({"ended": self._code, "output": output})

    def _turn(self) -> None:
        left_s = min(self._kill_at_s - time.monotonic(), self._other.poll_s)
        for fd, _ in self._poll.poll(None if math.isinf(left_s) else max(0.0, left_s * 1000)):
            if fd == self._other.fd:
                self._poll.unregister(fd)
                self._stop(_STOP_S)
            else:
                self._receive(fd)
        if self._other.has_ended():
            self._stop(_STOP_S)
        if time.monotonic() >= self._kill_at_s and self._up is not None:
            os.kill(self._up, signal.SIGKILL)
            self._kill_at_s = math.inf

    def _read(self, fd: int, reader: Callable[[bytes], None]) -> None:
        self._readers[fd] = reader
        self._poll.register(fd, select.POLLIN)

    def _receive(self, fd: int) -> None:
        data = os.read(fd, 65_536)
        if data:
            self._readers[fd](data)
        else:  # nobody writes there any more, which says nothing about the other process
            self._poll.unregister(fd)

    def _lines(self, fd: int, data: bytes) -> list[bytes]:
        *lines, self._rests[fd] = (self._rests.get(fd, b"") + data).split(b"\n")
        return lines

    def _on_request(self, data: bytes) -> None:
        for line in self._lines(0, data):
            request = json.loads(line)
            if "stop" in request:
                self._stop(request["stop"])
            elif self._up is None:
                self._start(**request)

    def _start(self, command: list[str], storage: str | None, properties: str) -> None:
        file = self._folder / "muster.properties"
        with open(file, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as written:
            written.write(properties)
        directory = self._folder / "storage" if storage is None else storage
        keeper = os.getpid()

        def bind() -> None:
            _libc.prctl(_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(1)

        try:
            process = subprocess.Popen(
                [*command, "--config", str(file), "--storage", str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                process_group=0,
                preexec_fn=bind,  # this process has one thread
            )
        except OSError as error:
            self._failure, self._code = str(error), 127
            return
        assert process.stdout is not None
        self._up = process.pid
        self._output = process.stdout
        self._read(process.stdout.fileno(), self._on_output)

    def _on_output(self, data: bytes) -> None:
        self._log.write(data)
        for line in self._lines(self._output.fileno(), data):
            if line.startswith(_READY):
                _send({"ready": line.decode(errors="replace")})

    def _on_signals(self, numbers: bytes) -> None:
        if signal.SIGTERM in numbers:
            self._stop(_STOP_S)
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._up:
                    self._up, self._code = None, os.waitstatus_to_exitcode(found[1])

    def _stop(self, timeout_s: float) -> None:
        """Send SIGTERM, once: a second one would end it at once, with its actors in the middle of their work."""
        if self._up is None:
            self._code = 0 if self._code is None else self._code
        elif math.isinf(self._kill_at_s):
            os.kill(self._up, signal.SIGTERM)
            self._kill_at_s = time.monotonic() + timeout_s

    def _end_others(self) -> None:
        """Wait for what ``muster up`` left, which are children of this process by now; kill what does not end."""
        until_s = time.monotonic() + _LEAVE_S
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0 and time.monotonic() > until_s:
                    for child in Path("/proc/self/task").glob("*/children"):
                        for number in child.read_text().split():
                            os.kill(int(number), signal.SIGKILL)
                if pid == 0:
                    time.sleep(_PAUSE_S)

    def _tail(self) -> str:
        with Path(self._log.name).open("rb") as log:
            size_bytes = log.seek(0, os.SEEK_END)
            log.seek(max(0, size_bytes - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def _remove_folder(self) -> None:
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _send(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the other process has ended
        os.write(1, json.dumps(message).encode() + b"\n")


def main() -> None:
    """Run one. Returns in the parent once a child of it, which nobody waits for, has taken over."""
    try:
        other = Other(int(sys.argv[1]))
    except ProcessLookupError:
        return
    if os.fork():
        os._exit(0)
    _libc.prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    Keeper(other).run()


if __name__ == "__main__":
    main()
