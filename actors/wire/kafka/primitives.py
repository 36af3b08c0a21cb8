"""Writers of values of Kafka's primitive types, for :mod:`muster.actors.wire.kafka.writer`."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.constants import uuid_zero

from muster.actors.wire.kafka.framing import Buffer
from muster.actors.wire.kafka.schema import MAX_STRING_BYTES, as_varint

Put = Callable[[Buffer], object]
Write = Callable[[Any, Put], None]
"""Puts the bytes of a value, piece by piece. After an exception, the bytes already put are useless."""

STRUCTS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "error_code": "h",
}
"""The types that a struct packs as they are."""
_MS_FORMATS = {"timedelta_i32": ">i", "timedelta_i64": ">q", "datetime_i64": ">q"}
_VARINTS = tuple(as_varint(value) for value in range(0x80))
_ERROR_CODES = {int(code): struct.pack(">h", code) for code in ErrorCode}
_NULL_MS = struct.pack(">q", -1)
_int16 = struct.Struct(">h").pack
_int32 = struct.Struct(">i").pack


def primitive(kafka_type: str, is_compact: bool, *, is_nullable: bool) -> Write:
    """Return a writer of values of that type. Raises TypeError if there is no such type."""
    if kafka_type in _MS_FORMATS:
        return _milliseconds(_MS_FORMATS[kafka_type], is_nullable=is_nullable)
    match kafka_type:
        case "error_code":
            return _write_error_code
        case "uuid":
            return _write_uuid
        case "string":
            string = _compact_string if is_compact else _string
            return string(is_nullable=is_nullable)
        case "bytes":
            return _bytes(is_compact, is_nullable=is_nullable)
        case "records":
            return _records(is_compact, is_nullable=is_nullable)
    if kafka_type in STRUCTS:
        return _packed(">" + STRUCTS[kafka_type])
    raise TypeError(f"no such primitive type: {kafka_type}")


def _packed(form: str) -> Write:
    pack = struct.Struct(form).pack

    def write(value: Any, put: Put) -> None:
        put(pack(value))

    return write


def _milliseconds(form: str, *, is_nullable: bool) -> Write:
    pack = struct.Struct(form).pack

    def write(value: Any, put: Put) -> None:
        if isinstance(value, datetime.timedelta):
            value = round(value.total_seconds() * 1000)
        elif isinstance(value, datetime.datetime):
            value = round(value.timestamp() * 1000)
        put(_NULL_MS if value is None and is_nullable else pack(value))

    return write


def _write_error_code(value: Any, put: Put) -> None:
    put(_ERROR_CODES[value])


def _write_uuid(value: Any, put: Put) -> None:
    put((uuid_zero if value is None else value).bytes)


def _compact_string(*, is_nullable: bool) -> Write:
    def write(value: Any, put: Put) -> None:
        if value is None and is_nullable:
            put(b"\0")
            return
        data = value.encode()
        put(_compact_length(len(data)) + data)

    return write


def _string(*, is_nullable: bool) -> Write:
    def write(value: Any, put: Put) -> None:
        if value is None and is_nullable:
            put(b"\xff\xff")
            return
        data = value.encode()
        if len(data) > MAX_STRING_BYTES:
            raise ValueError(f"a string of {len(data)} bytes")
        put(_int16(len(data)) + data)

    return write


def _bytes(is_compact: bool, *, is_nullable: bool) -> Write:
    length = length_of(is_compact)
    null = length(-1)

    def write(value: Any, put: Put) -> None:
        if value is None and is_nullable:
            put(null)
            return
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"{type(value).__name__}, not bytes")
        put(length(len(value)))
        put(value)

    return write


def _records(is_compact: bool, *, is_nullable: bool) -> Write:
    """In one piece, or a list of pieces."""
    length, whole = length_of(is_compact), _bytes(is_compact, is_nullable=is_nullable)

    def write(value: Any, put: Put) -> None:
        if not isinstance(value, list):
            whole(value, put)
            return
        put(length(sum(map(len, value))))
        for part in value:
            put(part)

    return write


def length_of(is_compact: bool) -> Callable[[int], bytes]:
    """Return a writer of the length of bytes or of an array; -1 is null."""
    return _compact_length if is_compact else _int32


def _compact_length(length: int) -> bytes:
    """Return the length plus one as a varint; -1 is null."""
    return _VARINTS[length + 1] if length < 0x7F else as_varint(length + 1)
