"""Signals to the processes of actors. These functions run on the node of the process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from muster.actors.faults import holder
from muster.actors.faults.errors import FaultError
from muster.actors.faults.model import ActorFault, HeldFault, KillFault, SlowFault

_START_S = 20.0


def do(fault: ActorFault, pid: int) -> int:
    """Kill, continue or hold the process. Returns the pid of the holder, else 0. Raises FaultError if it has ended."""
    if not isinstance(fault, HeldFault):
        try:
            os.kill(pid, signal.SIGKILL if isinstance(fault, KillFault) else signal.SIGCONT)
        except (ProcessLookupError, PermissionError) as error:
            raise FaultError(f"process {pid} cannot be sent a signal: {error.strerror}") from error
        return 0
    speed, expires_ms = fault.speed if isinstance(fault, SlowFault) else 0, fault.expires_ms or 0
    command = [sys.executable, "-I", "-S", str(Path(holder.__file__)), str(pid), str(speed), str(expires_ms)]
    started = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_START_S, cwd="/", check=False
    )
    if not started.stdout.strip():
        raise FaultError(f"process {pid} cannot be held; is it there?")
    return int(started.stdout)


def release(holder_pid: int, pid: int) -> None:
    """End the hold; the process continues. Ignores processes that have already ended."""
    with contextlib.suppress(OSError):
        if Path(holder.__file__).name.encode() in Path(f"/proc/{holder_pid}/cmdline").read_bytes():
            os.kill(holder_pid, signal.SIGTERM)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGCONT)
