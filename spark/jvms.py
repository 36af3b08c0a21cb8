"""The JVMs of a session on the nodes of a Ray cluster, and the folder for their temporary files.

RayDP kills its JVMs, which then remove nothing: libraries that they unpacked, blocks of Spark. So they have a folder of
their own, which a task on each node makes before they start and another one removes once they have ended.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_MARK = "-Dmuster.spark.application="
_PROC = Path("/proc")
_END_S = 10
"""Limit for JVMs to end."""


def mark(application: str) -> str:
    """Return the JVM option that identifies the application's processes."""
    return _MARK + application


def marked(application: str) -> Iterator[Path]:
    """Find the application's JVMs on this machine: their folders in /proc. Linux only: else none."""
    wanted = mark(application).encode()
    for process in _PROC.glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        if wanted in arguments:
            yield process


def temporary_folder(application: str) -> Path:
    """Name the application's folder, which has the same path on all nodes."""
    return Path(tempfile.gettempdir()) / f"{application}-spark"


def options(application: str) -> str:
    """Return the options of the application's JVMs on the nodes."""
    return f"{mark(application)} -Djava.io.tmpdir={temporary_folder(application)}"


def make_folder(path: str) -> None:
    """Make it on this machine, for this user alone."""
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)


def remove_folder(path: str, application: str) -> None:
    """Remove it from this machine after the application's JVMs have ended, or too long after they should have."""
    running = []
    for process in marked(application):
        with suppress(psutil.Error):
            running.append(psutil.Process(int(process.name)))
    psutil.wait_procs(running, timeout=_END_S)
    shutil.rmtree(path, ignore_errors=True)
