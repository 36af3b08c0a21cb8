"""A disk with steps that can be counted, failed or stopped, and the content of a log."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from muster.actors.log.config import LogConfig
from muster.actors.log.files.disk import Disk
from muster.actors.log.partition import PartitionLog
from muster.actors.log.storage import DirectoryStorage
from tests.log import either
from tests.log.support import NOW_MS, TOPIC_ID


class SteppingDisk(Disk):
    """Calls ``before(number, step)`` before each step that changes the disk, and before each check of a claim.

    Only for the threads of the rewriter and the cleaner: files beside a segment are written at any time. Without fsync:
    there is no power failure here, and fsync takes most of the time.
    """

    def __init__(self, before: Callable[[int, str], None] = lambda number, step: None) -> None:
        self.before = before
        self.count = 0
        self.is_on = False

    def step(self, name: str) -> None:
        if self.is_on and threading.current_thread().name.startswith(("log-rewrite", "log-cleaner")):
            self.count += 1
            self.before(self.count - 1, name)

    def create(self, path: Path) -> int:
        self.step("create")
        return super().create_unsynced(path)

    def create_unsynced(self, path: Path) -> int:
        self.step("create_unsynced")
        return super().create_unsynced(path)

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        self.step("write")
        half = len(content) // 2
        super().write(fd, content[:half], position)
        self.step("write the rest")
        super().write(fd, content[half:], position + half)

    def sync(self, fd: int) -> None:
        self.step("sync")

    def truncate(self, fd: int, size_bytes: int) -> None:
        self.step("truncate")
        super().truncate(fd, size_bytes)

    def rename(self, path: Path, target: Path) -> None:
        self.step("rename")
        path.replace(target)
        self.step("sync the directory")

    def unlink(self, path: Path) -> None:
        self.step("unlink")
        super().unlink(path)

    def replace_unsynced(self, path: Path, content: bytes, temporary_suffix: str) -> None:
        self.step("replace_unsynced")
        super().replace_unsynced(path, content, temporary_suffix)

    def watch_claim(self, log: PartitionLog) -> None:
        """Count a check of that log's claim as a step, too."""
        storage = log._replacer._storage
        assert isinstance(storage, DirectoryStorage)
        claim = storage._claim
        check = claim.check

        def stepping() -> None:
            self.step("claim")
            check()

        claim.check = stepping  # type: ignore[method-assign]


class Broken:
    """From one step on, or at that one only, every step fails."""

    def __init__(self, at: int, *, for_ever: bool) -> None:
        self.at = at
        self.for_ever = for_ever
        self.reached: str | None = None

    def __call__(self, number: int, step: str) -> None:
        if number == self.at:
            self.reached = step
        if number == self.at or (self.for_ever and number > self.at):
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class Gate:
    """Holds a thread at one step until it is released."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, number: int, step: str) -> None:
        if number == self.at:
            self.reached.set()
            assert self.opened.wait(20)


class Clock:
    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def opened(
    directory: Path, epoch: int, config: LogConfig, disk: Disk | None = None, clock: Clock | None = None
) -> PartitionLog:
    return either.open_log(
        directory,
        topic_id=TOPIC_ID,
        epoch=epoch,
        config=config,
        now_ms=clock or Clock(),
        disk=disk or SteppingDisk(),
    )


def content(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of everything that is served."""
    return [(record.offset, record.key, record.value) for record in log.replay()]


def latest(records: list[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key; a tombstone is not a value."""
    last = {key: value for _, key, value in records}
    return {key: value for key, value in last.items() if value is not None}
