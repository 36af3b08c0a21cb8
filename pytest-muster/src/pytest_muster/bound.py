"""Processes that end when their parent does, in whatever way, including kill -9 and a lost terminal."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

# Armed in the child, since a preexec_fn may deadlock in a process with threads; exec preserves it.
_BECOME = """
import ctypes, os, sys
os.setpgid(0, 0)
ctypes.CDLL(None).prctl(1, int(sys.argv[2]), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone already")
os.execv(sys.argv[3], sys.argv[3:])
"""


def bound(command: Sequence[str], signal_number: int = signal.SIGTERM) -> list[str]:
    """Return a command that becomes ``command``, whose first word is a path, and gets the signal when we end.

    "We" is the thread that starts it (prctl(2), PR_SET_PDEATHSIG). It is in a process group of its own: a Ctrl-C in
    the terminal reaches only us, and we stop it last. On Linux only; elsewhere it is ``command`` unchanged.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), str(int(signal_number)), *command]
