"""Sets the throttle time of a response that is written already, which may come from another process."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any

from muster.actors.wire.kafka.codec import API_VERSIONS, response_type
from muster.actors.wire.kafka.framing import Buffer

_FIELD, _FIELD_BYTES, _CORRELATION_ID_BYTES = "throttle_time", 4, 4
_VERSION_BYTES, _ERROR_BYTES, _COUNT_BYTES = 6, 2, 4
"""Sizes of one entry of ApiVersions, of an error code, and of the number of entries of an array."""


class _Place(Enum):
    START = "after the header"
    AFTER_ERROR = "after the header and an error code"
    END = "before the tagged fields, which are empty"
    AFTER_VERSIONS = "after the error code and an array of ApiVersions"


def with_throttle_time(api_key: int, version: int, parts: Sequence[Buffer], throttle_ms: int) -> Sequence[Buffer]:
    """Return the frame with that throttle time; unchanged if the version of the response has no such field.

    ``parts``: the frame without its size. Those that hold records are not copied.
    """
    found = _place(api_key, version)
    if found is None:
        return parts
    place, start, is_flexible = found
    if place is _Place.END:
        frame = bytearray().join(parts)
        _set(frame, len(frame) - _FIELD_BYTES - is_flexible, throttle_ms)
        return (frame,)
    if place is _Place.AFTER_VERSIONS:
        frame = bytearray().join(parts)
        _set(frame, _after_versions(frame, start, is_flexible=is_flexible), throttle_ms)
        return (frame,)
    at = start + (_ERROR_BYTES if place is _Place.AFTER_ERROR else 0)
    head, number = bytearray(), 0
    while len(head) < at + _FIELD_BYTES:
        head += parts[number]
        number += 1
    _set(head, at, throttle_ms)
    return (head, *parts[number:])


def _set(frame: bytearray, at: int, throttle_ms: int) -> None:
    frame[at : at + _FIELD_BYTES] = throttle_ms.to_bytes(_FIELD_BYTES, "big", signed=True)


def _after_versions(frame: bytearray, start: int, *, is_flexible: bool) -> int:
    at = start + _ERROR_BYTES
    if not is_flexible:
        count = int.from_bytes(frame[at : at + _COUNT_BYTES], "big")
        return at + _COUNT_BYTES + count * _VERSION_BYTES
    length, shift = 0, 0
    while True:
        byte = frame[at]
        at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return at + (length - 1) * (_VERSION_BYTES + 1)


@cache
def _place(api_key: int, version: int) -> tuple[_Place, int, bool] | None:
    """Where the field is, where the body begins, and whether it ends with tagged fields."""
    kind: Any = response_type(api_key, version)
    names = [each.name for each in dataclasses.fields(kind)]
    if _FIELD not in names:
        return None
    start = _CORRELATION_ID_BYTES + bool(kind.__header_schema__.__flexible__)
    is_flexible, index = bool(kind.__flexible__), names.index(_FIELD)
    if index == 0:
        return _Place.START, start, is_flexible
    if api_key == API_VERSIONS:
        return _Place.AFTER_VERSIONS, start, is_flexible
    if names[:index] == ["error_code"]:
        return _Place.AFTER_ERROR, start, is_flexible
    behind = [each for each in dataclasses.fields(kind)[index + 1 :] if "tag" not in each.metadata]
    if behind:
        raise ValueError(f"api key {api_key} version {version}: where the throttle time is cannot be known")
    return _Place.END, start, is_flexible
