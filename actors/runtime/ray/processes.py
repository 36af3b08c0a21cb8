"""Processes on this node: sends them signals, and waits for their end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

TITLE = "ray::"
"""Beginning of the title of a process that Ray started for a worker."""


class NotAnActor(ProcessLookupError):
    """No Ray process has that pid on this node; nothing was signalled."""


def signal_process(pid: int, signal_number: int) -> None:
    """Send a signal to a Ray worker process on this node. Raises NotAnActor if the pid is not, or no longer, one's."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        title = b""
    if not title.startswith(TITLE.encode()):
        raise NotAnActor(f"pid {pid} is no actor's process on this node")
    os.kill(pid, signal_number)


async def until_process_ends(pid: int) -> None:
    """Return once the process has ended, which the kernel reports at once (pidfd, Linux 5.3).

    Raises OSError if it cannot.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        loop.add_reader(fd, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
