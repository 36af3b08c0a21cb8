"""Going on in the background: ``muster up --detach LOG`` ends when what it started serves, or could not."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import BinaryIO

from actors import terminal
from gateway.cli.errors import CliError

_READY = b"muster ready "
_POLL_S = 0.1


def detach(log_file: Path) -> None:
    """Return in a child process that nobody's terminal or session ends, with its output at the end of the file.

    The parent never returns: it shows what the child says, and ends with 0 when that is ready. If the child ends
    before, it ends with another code: the child's, or 130 when it was interrupted, which ends the child. To be called
    before there are threads. CliError if the file cannot be written.
    """
    try:
        log = log_file.open("ab")
    except OSError as error:
        raise CliError(f"log {log_file} cannot be written: {error.strerror}; say another path") from error
    with log, log_file.open("rb") as said:
        said.seek(0, os.SEEK_END)
        child = os.fork()
        if child == 0:
            os.setsid()
            with Path(os.devnull).open("rb") as nothing:
                for source, descriptor in ((nothing, 0), (log, 1), (log, 2)):
                    os.dup2(source.fileno(), descriptor)
            return
        sys.exit(_follow(child, said))


def _follow(child: int, said: BinaryIO) -> int:
    """Show each line that the child writes until it serves or has ended; the exit code."""
    rest, interrupted = b"", False
    while True:
        try:
            ended, status = os.waitpid(child, os.WNOHANG)
            *lines, rest = (rest + said.read()).split(b"\n")
            for line in lines:
                terminal.line(line.decode(errors="replace"), err=not line.startswith(_READY))
            if any(line.startswith(_READY) for line in lines):
                return 0
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return 130 if interrupted else 128 - code if code < 0 else code or 1
            time.sleep(_POLL_S)
        except KeyboardInterrupt:
            interrupted = True
            os.kill(child, signal.SIGTERM)
