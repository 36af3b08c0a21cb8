"""Records of a response that are in a segment file, as Kafka's FileRecords: they take no memory while they wait."""

from __future__ import annotations

import errno
import os
from weakref import WeakValueDictionary

from muster.actors.wire.kafka.framing import Buffer


class _SegmentFile:
    """An open file. It is readable after it was removed, too, and closed when no response needs it any more."""

    __slots__ = ("__weakref__", "always_waits", "fd")

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.always_waits = False
        """Whether its file system, such as NFS, cannot read without waiting."""

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


_OPEN: WeakValueDictionary[str, _SegmentFile] = WeakValueDictionary()
"""By path: many that wait for the same segment share it. No name of a segment file is used twice."""


class FileRecords:
    """Whole batches of a segment file, which are read when the client's socket takes them.

    What was read to check them is used if the socket takes it at once.
    """

    __slots__ = ("_file", "_path", "_position", "_size_bytes", "content")

    def __init__(self, path: str, position: int, content: Buffer) -> None:
        self._path = path
        self._position = position
        self._size_bytes = len(content)
        self._file: _SegmentFile | None = None
        self.content: Buffer | None = content
        """None once the memory is given back."""

    def __len__(self) -> int:
        return self._size_bytes

    def give_back(self) -> None:
        """Free the memory, if the file is still there."""
        if self.content is None:
            return
        try:
            self._file = _OPEN.get(self._path)
            if self._file is None:
                self._file = _OPEN[self._path] = _SegmentFile(self._path)
        except OSError:
            return
        self.content = None

    def read_now(self, at: int, max_bytes: int) -> Buffer | None:
        """Return the bytes from there on that are in the page cache; None if there are none. Raises OSError."""
        assert self._file is not None
        if self._file.always_waits:
            return None
        data = bytearray(min(max_bytes, self._size_bytes - at))
        try:
            count = os.preadv(self._file.fd, [data], self._position + at, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._file.always_waits = True
            return None
        return memoryview(data)[:count] if count else None

    def read(self, at: int, max_bytes: int) -> bytes:
        """Return the bytes from there on from disk; for a thread. Raises OSError."""
        assert self._file is not None
        data = os.pread(self._file.fd, min(max_bytes, self._size_bytes - at), self._position + at)
        if not data:
            raise OSError(errno.EIO, f"{self._path} ends before byte {self._position + at}")
        return data
