"""The calls that change the disk. Every other file of the log only reads, so that a test can fail or delay these."""

from __future__ import annotations

import os
from pathlib import Path


class Disk:
    """All methods block and raise OSError."""

    def create(self, path: Path) -> int:
        """A new file under a name that none has, durably listed in its directory. Returns the file descriptor."""
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            sync_directory(path.parent)
        except OSError:
            os.close(fd)
            raise
        return fd

    def create_unsynced(self, path: Path) -> int:
        """The same, but a power failure may take the name away, with or without the content."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644)

    def write(self, fd: int, content: bytes, position: int) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(fd, view, position)
            view = view[written:]
            position += written

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def truncate(self, fd: int, size_bytes: int) -> None:
        os.ftruncate(fd, size_bytes)

    def rename(self, path: Path, target: Path) -> None:
        """Put a file in the place of another, or of none, durably: a reader sees the one or the other."""
        path.replace(target)
        sync_directory(target.parent)

    def unlink(self, path: Path) -> None:
        """A power failure may bring the file back."""
        path.unlink(missing_ok=True)

    def replace_unsynced(self, path: Path, content: bytes, temporary_suffix: str) -> None:
        """A reader sees the old content or the new. After a power failure it may be neither: for what has a CRC."""
        temporary = path.with_name(f"{path.name}.{temporary_suffix}.tmp")
        fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            self.write(fd, content, 0)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)


DISK = Disk()


def sync_directory(directory: Path) -> None:
    """Make names that were created, renamed or removed in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: Path, content: bytes, temporary_suffix: str) -> None:
    """A reader sees the old content or the new, also after a power failure."""
    temporary = path.with_name(f"{path.name}.{temporary_suffix}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)
