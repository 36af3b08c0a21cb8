"""The calls that change the disk. All other modules of the log only read, which lets tests fail or delay these."""

from __future__ import annotations

import os
from pathlib import Path


class Disk:
    """All methods block and raise OSError."""

    def create(self, path: Path) -> int:
        """Create a file under an unused name, durably listed in its directory. Returns the file descriptor."""
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            sync_directory(path.parent)
        except OSError:
            os.close(fd)
            raise
        return fd

    def create_unsynced(self, path: Path) -> int:
        """Like :meth:`create`, but a power failure may lose the name, with or without the content."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def check_room(self, directory: Path) -> None:
        """ENOSPC if what is free there is not for the records that are about to be written. Here: never."""

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        written = os.pwrite(fd, content, position)
        while written < len(content):
            written += os.pwrite(fd, memoryview(content)[written:], position + written)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def is_local(self, fd: int) -> bool:
        """Whether the file system can do without waiting what needs no disk. NFS, for one, cannot.

        False for a file that cannot be read at all.
        """
        try:
            os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def truncate(self, fd: int, size_bytes: int) -> None:
        os.ftruncate(fd, size_bytes)

    def rename(self, path: Path, target: Path) -> None:
        """Move a file to ``target``, durably, replacing any file there. A reader sees either the old or the new."""
        path.replace(target)
        sync_directory(target.parent)

    def unlink(self, path: Path) -> None:
        """Remove the file. A power failure may bring it back."""
        path.unlink(missing_ok=True)

    def replace_unsynced(self, path: Path, content: bytes, temporary_suffix: str) -> None:
        """Replace the file: a reader sees the old or the new content.

        After a power failure it may be neither: for content with a CRC.
        """
        temporary = path.with_name(f"{path.name}.{temporary_suffix}.tmp")
        fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o600)
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
    """Make the names that were created, renamed or removed in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: Path, content: bytes, temporary_suffix: str) -> None:
    """Replace the file: a reader sees the old or the new content, even after a power failure."""
    temporary = path.with_name(f"{path.name}.{temporary_suffix}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)
