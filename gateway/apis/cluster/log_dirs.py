"""The one log directory that all brokers share: ``logs`` below storage.path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from muster.actors.log.files.directory import name_of
from muster.gateway.listener.gateway import Gateway

Partition = tuple[str, int]


class Space(NamedTuple):
    """Space of the file system."""

    total_bytes: int
    usable_bytes: int


def log_dir(gateway: Gateway) -> Path:
    """Where the logs are."""
    return gateway.storage / "logs"


def space(folder: Path) -> Space:
    """Return the space of the folder's file system. Raises OSError."""
    found = os.statvfs(folder)
    return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def sizes_bytes(folder: Path, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the size of the segments of each partition with a directory, like Kafka's ``UnifiedLog.size``.

    Raises OSError.
    """
    found: dict[Partition, int] = {}
    for topic, partition in partitions:
        try:
            with os.scandir(folder / name_of(topic, partition)) as files:
                found[topic, partition] = sum(_size_bytes(file) for file in files if file.name.endswith(".log"))
        except FileNotFoundError:
            continue
    return found


def _size_bytes(file: os.DirEntry[str]) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # retention was faster
        return 0
