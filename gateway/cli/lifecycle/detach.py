"""Running in the background: ``muster up --detach LOG`` ends when the process it started serves, or has failed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from muster.actors.runtime import terminal
from muster.gateway.cli.errors import CliError

_READY = b"muster ready "
_POLL_S = 0.1
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def detach(log_file: Path) -> None:
    """Return in a child process, detached from terminal and session, whose output is appended to the file.

    The parent never returns: it shows the child's messages, and exits with 0 when the child is ready. If the child ends
    before that, the exit code is the child's, or 128 and the number of the signal that stopped the parent, which then
    stops the child. Call it before threads are started. CliError if the file cannot be written.
    """
    try:
        log = log_file.open("ab")
    except OSError as error:
        raise CliError(f"log {log_file} cannot be written: {error.strerror}; use another path") from error
    with log, log_file.open("rb") as said:
        said.seek(0, os.SEEK_END)
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
            os.setsid()
            with Path(os.devnull).open("rb") as nothing:
                for source, descriptor in ((nothing, 0), (log, 1), (log, 2)):
                    os.dup2(source.fileno(), descriptor)
            return
        sys.exit(_follow(child, said))


def _follow(child: int, said: BinaryIO) -> int:
    """Show each line that the child writes until it serves or has ended. Returns the exit code."""
    signals = _pass_on(child)
    rest = b""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        *lines, rest = (rest + said.read()).split(b"\n")
        for line in lines:
            terminal.line(line.decode(errors="replace"), err=not line.startswith(_READY))
        if not signals and any(line.startswith(_READY) for line in lines):
            return 0
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return 128 + signals[0] if signals else 128 - code if code < 0 else code or 1
        time.sleep(_POLL_S)


def _pass_on(child: int) -> Sequence[int]:
    """Have signals to this process, blocked so far, stop the child. Returns those received. nohup ignores some."""
    came: list[int] = []

    def stop(number: int, frame: Any) -> None:
        came.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    for number in _STOPPING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    return came
