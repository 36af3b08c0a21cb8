"""Ends the processes of a ``muster up`` once it has ended in any way. A program of its own, stdlib only.

Ray's head processes end with us by themselves, but its agents linger for a minute and its actors for
seconds, holding ports. Our processes are recognized by a variable in their environment, which children inherit,
or, since the agents overwrite theirs with their title, by that title and an open file in Ray's directory.

usage: watchdog.py NAME=VALUE TEMP_DIR, with stdin a pipe that only the guarded process can write to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

MARKER = "MUSTER_UP_ID"
"""Variable in the environment of the processes of a ``muster up``."""
_TRIES = 100
_PAUSE_S = 0.05


def guard(marker: str, temp_dir: str) -> None:
    """Wait until stdin ends; then kill every process with the marker, and remove the directory."""
    sys.stdin.buffer.read()
    for _ in range(_TRIES):  # repeated: processes that start during one round are found in the next
        left = ours(marker, temp_dir)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            break
        time.sleep(_PAUSE_S)
    shutil.rmtree(temp_dir, ignore_errors=True)


def ours(marker: str, temp_dir: str) -> list[int]:
    """Return live processes of this user that have the marker in their environment, or are Ray's and use the directory.

    A driver that connected from elsewhere is not ours.
    """
    processes = (process for process in Path("/proc").iterdir() if process.name.isdigit())
    return [
        int(process.name)
        for process in processes
        if int(process.name) != os.getpid() and (_has(process, marker) or _is_agent(process, temp_dir))
    ]


def _has(process: Path, marker: str) -> bool:
    try:
        return marker.encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # another user's, or ended
        return False


def _is_agent(process: Path, temp_dir: str) -> bool:
    with contextlib.suppress(OSError):
        if not (process / "cmdline").read_bytes().startswith(b"ray::"):
            return False
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(descriptor.readlink()).startswith(temp_dir + os.sep):
                    return True
    return False


if __name__ == "__main__":
    guard(*sys.argv[1:])
