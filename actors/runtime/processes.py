"""Processes of the own node: signals to them, and when they end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


class NotAnActor(ProcessLookupError):
    """No process of Ray has that pid on this node; nothing was signalled."""


def signal_process(pid: int, signal_number: int) -> None:
    """Send a signal to a worker process of Ray on this node. NotAnActor if the pid is not (or no more) one's."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        title = b""
    if not title.startswith(b"ray::"):
        raise NotAnActor(f"pid {pid} is no actor's process on this node")
    os.kill(pid, signal_number)


async def until_process_ends(pid: int) -> None:
    """Returns when the process has ended, which the kernel tells at once (pidfd, Linux 5.3). OSError if it cannot."""
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
