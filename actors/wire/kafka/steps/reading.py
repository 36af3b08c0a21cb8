"""Reads a request of many elements: what ``codec.check_request`` and ``codec.decode_request`` do, in small steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any, TypeVar

from kio.serial import entity_reader, readers

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.bounds import (
    MAX_ELEMENTS,
    Array,
    LengthError,
    array_head,
    parts_of,
    shared_limit,
    without_unknown_tags,
)

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work that may be interrupted after each of its steps, which take some ten microseconds; returns its result."""

_PRIMITIVES = {
    ("string", False): readers.read_legacy_string,
    ("string", True): readers.read_compact_string,
    **{("int8", each): readers.read_int8 for each in (False, True)},
    **{("int32", each): readers.read_int32 for each in (False, True)},
    **{("int64", each): readers.read_int64 for each in (False, True)},
    **{("uuid", each): readers.read_uuid for each in (False, True)},
}
"""By type, and whether the version is flexible: those that are in arrays of requests."""
_AT_ONCE = 16
"""Elements of a step."""
_FEW = 1_000
"""The arrays in the elements of a longer one are short, as there are MAX_ELEMENTS in all: they are read at once."""


def finish(steps: Steps[T]) -> T:
    """Return the result, of all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def decode_in_steps(header: codec.Header, frame: bytes) -> Steps[Any]:
    """Return a client's request as kio's entity. Raises UndecodableRequest."""
    kind = codec.request_type(header.api_key, header.api_version)
    try:
        entity, _ = yield from shared_limit(_read(kind, frame, header.end), MAX_ELEMENTS)
    except IndexError:
        text = f"the message ends after {len(frame) - header.end} bytes, in the middle"
        raise codec.UndecodableRequest(f"{kind.__name__} v{header.api_version}: {text}") from None
    except LengthError as error:
        raise codec.UndecodableRequest(f"{kind.__name__} v{header.api_version}: {error}") from error
    except codec.UNREADABLE as error:
        raise codec.UndecodableRequest(f"{kind.__name__} v{header.api_version}: {codec.why(error)}") from error
    return entity


def _read(kind: Any, frame: bytes, at: int) -> Steps[tuple[Any, int]]:
    """Return the entity and the index behind it: kio reads it with empty arrays, and their elements one by one."""
    rest: list[bytes] = []
    arrays: dict[str, tuple[Any, ...]] = {}
    begin = at
    for part in parts_of(kind):
        if part.array is None:
            at = _within(frame, part.end(frame, at))
            continue
        count, first = part.array.head(frame, at)
        if count > 0:
            rest += (frame[begin:at], array_head(kind, 0))
            arrays[part.name], first = yield from _elements(part.array, count, kind.__flexible__, frame, first)
            begin = first
        at = first
    rest.append(frame[begin:at])
    entity = _decoded(kind, b"".join(rest))
    return dataclasses.replace(entity, **arrays), at


def _elements(array: Array, count: int, is_flexible: bool, frame: bytes, at: int) -> Steps[tuple[tuple[Any, ...], int]]:
    """Return the elements, and the index behind them."""
    elements = []
    is_deep = array.has_arrays and count < _FEW
    read = None if array.nested is not None else _PRIMITIVES[array.kafka_type, is_flexible]
    for number in range(count):
        if is_deep:
            element, end = yield from _read(array.nested, frame, at)
        else:
            end = _within(frame, array.element_end(frame, at))
            element = _decoded(array.nested, frame[at:end]) if read is None else read(frame, at)[0]
        elements.append(element)
        at = end
        if not number % _AT_ONCE:
            yield
    return tuple(elements), at


def _decoded(kind: Any, part: bytes) -> Any:
    try:
        return entity_reader(kind)(part, 0)[0]
    except KeyError:  # an unknown tagged field: rare enough to look for it only now
        return entity_reader(kind)(without_unknown_tags(kind, part, 0), 0)[0]


def _within(frame: bytes, end: int) -> int:
    """Return that index. Raises IndexError if it is behind the end of the frame."""
    if end > len(frame):
        raise IndexError(end)
    return end
