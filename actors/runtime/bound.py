"""Processes that end when the thread that started them does, in whatever way: kill -9 included (Linux only)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

# Armed in the child, since a preexec_fn may deadlock in a process with threads; exec preserves it.
_BECOME = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[2]), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone already")
os.execv(sys.argv[3], sys.argv[3:])
"""


def bound(command: Sequence[str], number: signal.Signals = signal.SIGTERM) -> list[str]:
    """Return a command that becomes ``command``, whose first word is a path, and gets the signal when we end.

    "We" is the thread that starts it (prctl(2), PR_SET_PDEATHSIG).
    """
    return [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), str(int(number)), *command]
