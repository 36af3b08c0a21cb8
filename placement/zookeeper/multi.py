"""Many reads in one request to ZooKeeper.

MultiRead (opcode 22, ZooKeeper 3.6, ZOOKEEPER-3402) is not in kazoo 2.11, which needs 0.1 ms of CPU for a separate
request; here a node costs a tenth of that (docs/decisions/0016-mapping-in-zookeeper.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar

from kazoo.exceptions import EXCEPTIONS, NoNodeError
from kazoo.protocol.serialization import read_buffer, read_string, write_string
from kazoo.protocol.states import ZnodeStat

T = TypeVar("T")

_GET_DATA, _GET_CHILDREN, _ERROR = 4, 8, -1
_HEADER = struct.Struct("!i?i")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_PATHS_PER_REQUEST = 500
_END = _HEADER.pack(-1, True, -1)

Data = tuple[bytes, ZnodeStat]
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
