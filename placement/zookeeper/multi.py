"""Many reads, or many writes, in one request to ZooKeeper.

MultiRead (opcode 22, ZooKeeper 3.6, ZOOKEEPER-3402) is not in kazoo 2.11, which needs 0.1 ms of CPU for a separate
request; here a node costs a tenth of that. kazoo has Multi (opcode 14), but half of the cost of a large one goes into
checking names that we created ourselves, and into results that are never used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, TypeVar

from kazoo.exceptions import EXCEPTIONS, KazooException, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import read_buffer, read_string, write_string
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL

T = TypeVar("T")

_CREATE, _DELETE, _GET_DATA, _SET_DATA, _GET_CHILDREN, _CHECK, _ERROR = 1, 2, 4, 5, 8, 13, -1
_HEADER = struct.Struct("!i?i")
_INT = struct.Struct("!i")
_PERSISTENT = _INT.pack(0)
_PATH = struct.Struct("!i?ii")
"""The header of an operation, and the length of its path."""
_ROLLED_BACK = (RolledBackError.code, RuntimeInconsistency.code)
_STAT = struct.Struct("!qqqqiiiqiiq")
_PATHS_PER_REQUEST = 500
_END = _HEADER.pack(-1, True, -1)

Data = tuple[bytes, ZnodeStat]
Operation = tuple[Any, ...]
"""``("create", path, data)``, ``("delete", path, version)``, ``("set_data", path, data)`` or with a version, and
``("check", path, version)``."""
Call = Callable[[Any], Any]
"""Sends a request and waits for its result."""


@dataclass(frozen=True)
class MultiRead:
    """Reads of one kind. The result has what each one read, in the same order; None for a node that does not exist."""

    type: ClassVar[int] = 22

    kind: int
    paths: tuple[str, ...]

    def serialize(self) -> bytes:
        head = _HEADER.pack(self.kind, False, -1)
        return b"".join(head + write_string(path) + b"\0" for path in self.paths) + _END

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> list[Any]:
        found: list[Any] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return found
            value, offset = _READERS[kind](buffer, offset)
            found.append(value)


def _read_data(buffer: bytes, offset: int) -> tuple[Data, int]:
    data, offset = read_buffer(buffer, offset)
    return (data or b"", ZnodeStat._make(_STAT.unpack_from(buffer, offset))), offset + _STAT.size


def _read_names(buffer: bytes, offset: int) -> tuple[list[str], int]:
    (count,) = _INT.unpack_from(buffer, offset)
    offset += _INT.size
    names = []
    for _ in range(count):
        name, offset = read_string(buffer, offset)
        names.append(name)
    return names, offset


def _read_error(buffer: bytes, offset: int) -> tuple[None, int]:
    (code,) = _INT.unpack_from(buffer, offset)
    error = EXCEPTIONS[code]
    if error is not NoNodeError:
        raise error()
    return None, offset + _INT.size


_READERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    _GET_DATA: _read_data,
    _GET_CHILDREN: _read_names,
    _ERROR: _read_error,
}


def read_data(paths: Iterable[str], call: Call) -> dict[str, Data]:
    """Return data and stat of every path that exists. Those of one request are read in the order of the paths."""
    return dict(_read(_GET_DATA, paths, call))


def read_children(paths: Iterable[str], call: Call) -> dict[str, list[str]]:
    """Names of the children of every path that exists."""
    return dict(_read(_GET_CHILDREN, paths, call))


def _read(kind: int, paths: Iterable[str], call: Call) -> Iterator[tuple[str, Any]]:
    for some in _parts(paths):
        responses: Sequence[Any] = call(MultiRead(kind, some))
        yield from ((path, response) for path, response in zip(some, responses, strict=True) if response is not None)


def _parts(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(paths)
    while some := tuple(islice(rest, _PATHS_PER_REQUEST)):
        yield some


@dataclass(frozen=True)
class MultiWrite:
    """All of the operations or none, with paths that need no checking.

    The result is empty, or holds the error of the first operation that failed.
    """

    type: ClassVar[int] = 14

    chroot: str
    operations: Sequence[Operation]
    acl_of: Callable[[str], tuple[ACL, ...]]
    """ACL of a new node; the path is without chroot."""

    def serialize(self) -> bytes:
        chroot = self.chroot.encode()
        parts: list[bytes] = []
        for name, path, *arguments in self.operations:
            kind, write = _WRITERS[name]
            full = chroot + path.encode()
            parts += (_PATH.pack(kind, False, -1, len(full)), full, *write(*arguments))
            if kind == _CREATE:
                parts.append(_written(self.acl_of(path)))
                parts.append(_PERSISTENT)
        parts.append(_END)
        return b"".join(parts)

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> list[KazooException]:
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            if kind != _ERROR or done:  # if one fails, the others are errors, too
                return []
            offset += _HEADER.size
            (code,) = _INT.unpack_from(buffer, offset)
            offset += _INT.size
            if code not in _ROLLED_BACK:
                return [EXCEPTIONS[code]()]


@lru_cache(8)
def _written(acls: tuple[ACL, ...]) -> bytes:
    parts = [_INT.pack(acl.perms) + write_string(acl.id.scheme) + write_string(acl.id.id) for acl in acls]
    return _INT.pack(len(parts)) + b"".join(parts)


def _create(data: bytes) -> tuple[bytes, ...]:
    return _INT.pack(len(data)), data


def _set_data(data: bytes, version: int = -1) -> tuple[bytes, ...]:
    return _INT.pack(len(data)), data, _INT.pack(version)


def _version(version: int) -> tuple[bytes, ...]:
    return (_INT.pack(version),)


_WRITERS: dict[str, tuple[int, Callable[..., tuple[bytes, ...]]]] = {
    "create": (_CREATE, _create),
    "delete": (_DELETE, _version),
    "set_data": (_SET_DATA, _set_data),
    "check": (_CHECK, _version),
}
