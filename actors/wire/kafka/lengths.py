"""Lengths and tagged fields in a client's bytes, of which nothing is trusted: for readers that are made from source.

An index may be behind the end of the frame: a slice is never longer than the frame, and a reader looks at its end.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.wire.kafka.schema import MAX_STRING_BYTES

MAX_ELEMENTS = 100_000
"""Limit of all arrays of a request together, tagged fields included.

Kafka 4.4 allows a million for each array, earlier ones limit only the frame; but 100 MB may be fifty million names,
which would take a minute to read, and gigabytes.
"""
_VARINT_BYTES = 5
_ENDS = "the message ends in the middle"


class LengthError(ValueError):
    """A length in the message is negative, exceeds the bytes that follow, or is null where null is not allowed."""


class TooManyElements(LengthError):
    """The arrays of the message have more elements than they may have."""


UNREADABLE = (ValueError, LookupError, struct.error)
"""Errors for bytes that are no such entity; IndexError and struct.error behind the end."""


def why(error: Exception) -> str:
    """Return a short text for any of UNREADABLE: the repr of a UnicodeDecodeError would hold all of the bytes."""
    if isinstance(error, LengthError):
        return str(error)
    if isinstance(error, IndexError | struct.error):
        return _ENDS
    return f"{type(error).__name__}: {error}"


def _varint(frame: bytes, at: int, first: int) -> tuple[int, int]:
    """Return the varint with that first byte, of which the second is at that index, and the index behind it."""
    value = first & 0x7F
    if first < 0x80:
        return value, at
    for shift in range(7, 7 * _VARINT_BYTES, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise LengthError(f"a varint of more than {_VARINT_BYTES} bytes")


def _long_bytes(frame: bytes, at: int, first: int, is_nullable: bool, max_bytes: int | None = None) -> Any:
    """Return compact bytes, and the index behind them; ``first``: the first byte of their length."""
    length, at = _varint(frame, at, first)
    if not length:
        if not is_nullable:
            raise _null()
        return None, at
    end = at + length - 1
    if max_bytes is not None and length - 1 > max_bytes:
        raise LengthError(f"a string of {length - 1} bytes")
    if end > len(frame):
        raise LengthError(f"a field of {length - 1} bytes in the last {len(frame) - at} bytes")
    return frame[at:end], end


def _long_text(frame: bytes, at: int, first: int, is_nullable: bool) -> Any:
    """:func:`_long_bytes` of a string."""
    return _long_bytes(frame, at, first, is_nullable, MAX_STRING_BYTES)


def _long_string(frame: bytes, at: int, first: int, is_nullable: bool) -> Any:
    """Return a compact string, and the index behind it."""
    data, at = _long_text(frame, at, first, is_nullable)
    return data if data is None else data.decode(), at


def tag_count(frame: bytes, at: int, first: int, left: int) -> tuple[int, int, int]:
    """Return the number of tagged fields, the index of the first, and how many more elements there may be."""
    count, at = _varint(frame, at, first)
    if 2 * count > len(frame) - at:
        raise LengthError(f"{count} tagged fields in the last {len(frame) - at} bytes")
    if count > left:
        raise _too_many()
    return count, at, left - count


def _tag_head(frame: bytes, at: int) -> tuple[int, int, int]:
    """Return a field's tag, its size, and the index of its value."""
    tag, at = _varint(frame, at + 1, frame[at])
    size, at = _varint(frame, at + 1, frame[at])
    if size > len(frame) - at:
        raise LengthError(f"a field of {size} bytes in the last {len(frame) - at} bytes")
    return tag, size, at


def pass_over_tags(frame: bytes, at: int, first: int, left: int) -> tuple[int, int]:
    """Pass over tagged fields, and return the index behind them, and how many more elements there may be.

    ``first``: the first byte of their count, which is in front of that index. Raises UNREADABLE.
    """
    count, at, left = tag_count(frame, at, first, left)
    for _ in range(count):
        _, size, at = _tag_head(frame, at)
        at += size
    return at, left


def _too_long(count: int, rest: int) -> LengthError:
    return LengthError(f"an array of {count} elements in the last {rest} bytes")


def _too_many() -> TooManyElements:
    return TooManyElements(f"more than {MAX_ELEMENTS} elements")


def _null() -> LengthError:
    return LengthError("null where it is not allowed")


def _negative(length: int) -> LengthError:
    """-1 is null."""
    return _null() if length == -1 else LengthError(f"a length of {length}")


def _other_size(tag: int, size: int) -> LengthError:
    return LengthError(f"tagged field {tag} is not of the {size} bytes that it announces")


def _beyond() -> LengthError:
    return LengthError(_ENDS)


@lru_cache(maxsize=4_096)
def _uuid(data: bytes) -> UUID:
    """Topics have few ids, and to make one takes a microsecond."""
    return UUID(bytes=data)


HELPERS = {
    "beyond": _beyond,
    "error_codes": {int(code): code for code in ErrorCode},
    "long_bytes": _long_bytes,
    "long_string": _long_string,
    "long_text": _long_text,
    "negative": _negative,
    "other_size": _other_size,
    "pass_over": pass_over_tags,
    "tag_count": tag_count,
    "tag_head": _tag_head,
    "too_long": _too_long,
    "too_many": _too_many,
    "uuid": _uuid,
    "varint": _varint,
    "ZERO": bytes(16),
}
"""By the names that source text uses."""
