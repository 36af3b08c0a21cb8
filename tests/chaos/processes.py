"""Processes of a running Muster: the processes of each actor, and the resources that they hold."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import psutil

_LOG = re.compile(r".*/run/log/([^/]+?)\.log")


def family(pid: int) -> list[psutil.Process]:
    """Return the process and all its descendants; empty if it has ended."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def actors(pid: int) -> dict[str, list[psutil.Process]]:
    """Actors below ``muster up``, oldest process first: each is identified by its open log file.

    That is cheaper than a query to Ray, and works while the controller is killed or paused.
    """
    found: dict[str, list[psutil.Process]] = {}
    for process in family(pid)[1:]:
        for name in _logs(process):
            found.setdefault(name, []).append(process)
    for processes in found.values():
        processes.sort(key=_age)
    return found


def zookeeper(pid: int) -> list[psutil.Process]:
    """Return the ZooKeeper server's processes below ``muster up``."""
    return [
        process for process in family(pid) if "zookeeper" in " ".join(_command(process)) and "java" in _name(process)
    ]


def sample(pid: int) -> list[tuple[str, int, int, int, int]]:
    """(role, pid, resident bytes, file descriptors, sockets) of ``muster up`` and all its descendants."""
    roles = {process.pid: name for name, processes in actors(pid).items() for process in processes}
    roles |= {process.pid: "zookeeper" for process in zookeeper(pid)}
    figures = []
    for process in family(pid):
        with suppress(psutil.Error, OSError):
            role = roles.get(process.pid) or _name(process).split()[0]
            open_files = _descriptors(process.pid)
            sockets = sum(target.startswith("socket:") for target in open_files)
            figures.append((role, process.pid, process.memory_info().rss, len(open_files), sockets))
    return figures


def _logs(process: psutil.Process) -> set[str]:
    found: set[str] = set()
    with suppress(OSError):
        found = {match[1] for target in _descriptors(process.pid) if (match := _LOG.fullmatch(target))}
    return found


def _descriptors(pid: int) -> list[str]:
    targets = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            targets.append(str(descriptor.readlink()))
    return targets


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return list(process.cmdline())
    return []


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return str(process.name())
    return "gone"


def _age(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        return float(process.create_time())
    return 0.0
