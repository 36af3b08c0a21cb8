"""The lengths in a message, followed by kio's schemas: the judge of the reader that is made from the same schemas.

kio's native reader reserves memory for as many elements as an array announces, and its process ends where there is not
as much; so what is hostile has to be looked through first. It refuses unknown tagged fields, and it cannot count
durations of more than 292,000 years.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from muster.actors.wire.kafka.schema import as_varint, nested_entity

_FIXED_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_VARINT_BYTES = 5
MAX_STRING_BYTES = 32_767
"""Kafka does not read longer STRINGs, though a compact one could be longer."""
_MAX_DURATION_MS = (1 << 63) // 1000
"""kio counts durations in microseconds."""
MAX_ELEMENTS = 100_000
"""Limit of all arrays of a request together, tagged fields included.

Kafka 4.4 allows a million for each array, earlier ones limit only the frame; but 100 MB may be fifty million names,
which would take a minute to read, and gigabytes.
"""


class LengthError(ValueError):
    """A length in the message is negative, exceeds the bytes that follow, or is null where null is not allowed."""


class TooManyElements(LengthError):
    """The arrays of the message have more elements than they may have."""


class OddNull(ValueError):
    """An int8 below -1 precedes an entity that may be null: kio reads the entity, and Kafka null."""


class _Shape(NamedTuple):
    """How to skip a value: ``end(frame, at)`` is the index behind it; LengthError, IndexError."""

    end: Callable[[bytes, int], int]
    least_bytes: int
    is_fixed: bool = False


class _Elements(threading.local):
    """How many elements the message that this thread checks may still have."""

    left: float = math.inf

    def take(self, count: int) -> None:
        """Raise LengthError if there are too many."""
        self.left -= count
        if self.left < 0:
            raise TooManyElements(f"more than {MAX_ELEMENTS} elements")


_elements = _Elements()


def check_lengths(kind: Any, frame: bytes, start: int, max_elements: float = math.inf) -> None:
    """Raise LengthError if the entity of class ``kind`` at ``start``, by its own lengths, exceeds the frame.

    Also if its arrays together have more than ``max_elements``.
    """
    _elements.left = max_elements
    try:
        end = _entity(kind).end(frame, start)
    except IndexError:
        end = len(frame) + 1
    finally:
        _elements.left = math.inf
    if end > len(frame):
        raise LengthError(f"the message ends after {len(frame) - start} bytes, in the middle")


def tagged_fields_end(frame: bytes, start: int) -> int:
    """Return the index behind the tagged fields at ``start``, whatever they are.

    Raises LengthError if they do not fit.
    """
    _elements.left = MAX_ELEMENTS
    try:
        return _tags({}).end(frame, start)
    except IndexError:
        raise LengthError("the tagged fields do not end") from None
    finally:
        _elements.left = math.inf


class _Recorded(bytes):
    """A frame that records where it has tagged fields unknown to its schema."""

    cuts: list[tuple[int, int, bytes]]
    """(begin, end, replacement without them), in order."""


def without_unknown_tags(kind: Any, frame: bytes, start: int) -> bytes:
    """Return the frame without tagged fields that ``kind`` does not know; a reader must ignore these (KIP-482).

    Raises LengthError or IndexError if the frame does not fit.
    """
    recorded = _Recorded(frame)
    recorded.cuts = []
    _entity(kind).end(recorded, start)
    parts, at = [], 0
    for begin, end, replacement in recorded.cuts:
        parts += [frame[at:begin], replacement]
        at = end
    return b"".join((*parts, frame[at:]))


def with_durations_cut(kind: Any, frame: bytes, start: int) -> bytes:
    """Return the frame with the int64 durations of the entity cut to those that kio reads: 292,000 years.

    Not those of nested entities: no request has any. Raises LengthError or IndexError if the frame does not fit.
    """
    at, found = start, bytearray(frame)
    for name, shape in _parts(kind):
        end = shape.end(frame, at)
        if name in _durations(kind):
            duration_ms = int.from_bytes(frame[at:end], "big", signed=True)
            found[at:end] = max(-_MAX_DURATION_MS, min(duration_ms, _MAX_DURATION_MS)).to_bytes(8, "big", signed=True)
        at = end
    return bytes(found)


@cache
def _parts(kind: Any) -> list[tuple[str, _Shape]]:
    hints = typing.get_type_hints(kind)
    plain = (each for each in dataclasses.fields(kind) if "tag" not in each.metadata)
    return [(each.name, _field(kind, each, hints[each.name])) for each in plain]


@cache
def _durations(kind: Any) -> frozenset[str]:
    declared = dataclasses.fields(kind)
    return frozenset(each.name for each in declared if each.metadata.get("kafka_type") == "timedelta_i64")


@cache
def _entity(kind: Any) -> _Shape:
    hints = typing.get_type_hints(kind)
    fields = [(declared, _field(kind, declared, hints[declared.name])) for declared in dataclasses.fields(kind)]
    shapes = [shape for declared, shape in fields if "tag" not in declared.metadata]
    tagged = {declared.metadata["tag"]: shape for declared, shape in fields if "tag" in declared.metadata}
    if kind.__flexible__:
        shapes.append(_tags(tagged))
    least_bytes = sum(shape.least_bytes for shape in shapes)
    if all(shape.is_fixed for shape in shapes):
        return _fixed(least_bytes)
    ends = _joined(shapes)

    def end(frame: bytes, at: int) -> int:
        for step in ends:
            at = step(frame, at)
        return at

    return _Shape(end, least_bytes)


def _joined(shapes: list[_Shape]) -> list[Callable[[bytes, int], int]]:
    """Neighbours of fixed size are skipped in one step."""
    steps: list[Callable[[bytes, int], int]] = []
    pending_bytes = 0
    for shape in shapes:
        if shape.is_fixed:
            pending_bytes += shape.least_bytes
            continue
        if pending_bytes:
            steps.append(_fixed(pending_bytes).end)
            pending_bytes = 0
        steps.append(shape.end)
    return [*steps, _fixed(pending_bytes).end] if pending_bytes else steps


def _field(kind: Any, declared: dataclasses.Field[Any], hint: Any) -> _Shape:
    nested, many = nested_entity(hint)
    one = _one(kind, declared, nested)
    if many:
        return _array(one, kind.__flexible__, is_nullable=type(None) in typing.get_args(hint))
    return _nullable(one) if nested is not None and type(None) in typing.get_args(hint) else one


def _one(kind: Any, declared: dataclasses.Field[Any], nested: Any) -> _Shape:
    """Return the shape of a value of the field, or of an element of its array."""
    return _entity(nested) if nested is not None else _primitive(declared.metadata["kafka_type"], kind.__flexible__)


def _primitive(kafka_type: str, flexible: bool) -> _Shape:
    if kafka_type in _FIXED_BYTES:
        return _fixed(_FIXED_BYTES[kafka_type])
    if kafka_type not in ("string", "bytes", "records"):
        raise TypeError(f"no such primitive type: {kafka_type}")
    if flexible:
        return _Shape(_compact_string_end if kafka_type == "string" else _compact_end, 1)
    return _sized(2 if kafka_type == "string" else 4)


def _fixed(size_bytes: int) -> _Shape:
    return _Shape(lambda _, at: at + size_bytes, size_bytes, is_fixed=True)


def _sized(prefix_bytes: int) -> _Shape:
    return _Shape(lambda frame, at: _within(frame, *_length(frame, at, prefix_bytes)), prefix_bytes)


def _compact_end(frame: bytes, at: int) -> int:
    if (size := frame[at]) < 0x80:  # nearly always; the end of the frame is checked later
        return at + (size or 1)
    return _within(frame, *_compact_length(frame, at))


def _compact_string_end(frame: bytes, at: int) -> int:
    if (size := frame[at]) < 0x80:
        return at + (size or 1)
    length, at = _compact_length(frame, at)
    if length > MAX_STRING_BYTES:
        raise LengthError(f"a string of {length} bytes")
    return _within(frame, length, at)


def _nullable(entity: _Shape) -> _Shape:
    """Return the shape of a nullable entity: an int8 precedes it; -1 is null (KIP-893)."""

    def end(frame: bytes, at: int) -> int:
        if 0x80 <= frame[at] < 0xFF:
            raise OddNull(f"an int8 of {frame[at] - 0x100}")
        return at + 1 if frame[at] == 0xFF else entity.end(frame, at + 1)

    return _Shape(end, 1)


def _array(element: _Shape, flexible: bool, *, is_nullable: bool) -> _Shape:
    def head(frame: bytes, at: int) -> tuple[int, int]:
        count, at = _compact_length(frame, at) if flexible else _length(frame, at, 4)
        if count < 0 and not is_nullable:  # kio would return None for it
            raise LengthError("null for an array that may not be null")
        if count * element.least_bytes > len(frame) - at:
            raise LengthError(f"an array of {count} elements in the last {len(frame) - at} bytes")
        if count > 0:
            _elements.take(count)
        return count, at

    def end(frame: bytes, at: int) -> int:
        count, at = head(frame, at)
        if element.is_fixed:
            return at + max(count, 0) * element.least_bytes
        for _ in range(count):
            at = element.end(frame, at)
        return at

    return _Shape(end, 1 if flexible else 4)


def _tags(known: Mapping[int, _Shape]) -> _Shape:
    """Tagged fields: count, then tag, size and value of each. A known field must have the announced size."""

    def end(frame: bytes, at: int) -> int:
        if not frame[at]:
            return at + 1
        begin, kept = at, []
        count, at = _varint(frame, at)
        if 2 * count > len(frame) - at:
            raise LengthError(f"{count} tagged fields in the last {len(frame) - at} bytes")
        _elements.take(count)
        for _ in range(count):
            field_begin = at
            tag, at = _varint(frame, at)
            size, at = _varint(frame, at)
            behind = _within(frame, size, at)
            if tag in known:
                kept.append(bytes(frame[field_begin:behind]))
            if tag in known and known[tag].end(frame, at) != behind:
                raise LengthError(f"tagged field {tag} is not of the {size} bytes that it announces")
            at = behind
        if len(kept) < count and isinstance(frame, _Recorded):
            frame.cuts.append((begin, at, as_varint(len(kept)) + b"".join(kept)))
        return at

    return _Shape(end, 1)


def _within(frame: bytes, length: int, at: int) -> int:
    if length > len(frame) - at:
        raise LengthError(f"a field of {length} bytes in the last {len(frame) - at} bytes")
    return at + max(length, 0)


def _length(frame: bytes, at: int, prefix_bytes: int) -> tuple[int, int]:
    """Return the length, -1 for null, and the index behind it."""
    length = int.from_bytes(frame[at : at + prefix_bytes], "big", signed=True)
    if length < -1 or at + prefix_bytes > len(frame):
        raise LengthError(f"a length of {length} in the last {len(frame) - at} bytes")
    return length, at + prefix_bytes


def _compact_length(frame: bytes, at: int) -> tuple[int, int]:
    length, at = _varint(frame, at)
    return length - 1, at


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise LengthError(f"a varint of more than {_VARINT_BYTES} bytes")
