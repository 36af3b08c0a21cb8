"""A terminal of a given width, on which commands write."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from rich.cells import cell_len

FOLDED = re.compile(r" \S")
"""The beginning of each line of a table whose cells are folded, or have lines of their own."""


class Screen:
    """Lines that were written, without colours."""

    def __init__(self, device: str, master: int) -> None:
        self.device = Path(device)
        self._master = master
        self._written = b""

    def read(self) -> None:
        """Until all writers have closed the device."""
        with os.fdopen(self._master, "rb", buffering=0) as master:
            try:
                while part := master.read(65536):
                    self._written += part
            except OSError:  # EIO: how Linux reports that end
                return

    @property
    def lines(self) -> list[str]:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._written.decode()).splitlines()

    def check(self, width: int) -> None:
        """No line is longer than the terminal is wide, and no cell is folded."""
        assert self.lines
        assert [line for line in self.lines if cell_len(line) > width] == []
        assert [line for line in self.lines if FOLDED.match(line)] == []


@contextmanager
def terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Within, stdout and stderr are a terminal, also for consoles of rich; afterwards, all of it can be read."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    screen = Screen(os.ttyname(slave), master)
    reader = threading.Thread(target=screen.read)
    reader.start()
    with monkeypatch.context() as patched, os.fdopen(slave, "w", encoding="utf-8") as written:
        patched.setenv("COLUMNS", str(width))
        patched.setenv("TERM", "xterm-256color")
        with redirect_stdout(written), redirect_stderr(written):
            yield screen
    reader.join()
