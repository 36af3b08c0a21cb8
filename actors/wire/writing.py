"""From kio's entities to bytes, by kio's schemas, quickly.

kio's own writer checks every length as a phantom type and makes a buffer for the tagged fields of each entity: a
described group costs it 30 us, most of what DescribeGroups of ten thousand groups takes. This compiles the same schema
into one function per entity class, and leaves to kio what is rare: classes with tagged fields, entities that may be
null, request headers. Encodings: see ``actors.wire.bounds``.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from kio.serial import entity_writer
from kio.static.constants import uuid_zero

from actors.wire.bounds import as_varint, nested_entity

Put = Callable[[bytearray, Any], None]
"""Appends a value's encoding. struct.error, TypeError, AttributeError where the value is none of its type."""

_FORMATS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
_SMALL = tuple(bytes((number,)) for number in range(0x80))


@cache
def putter(kind: Any) -> Put:
    """What appends an entity of that class."""
    if kind.__name__ == "RequestHeader" or any("tag" in declared.metadata for declared in dataclasses.fields(kind)):
        return _by_kio(kind)
    hints = typing.get_type_hints(kind)
    try:
        fields = [
            (declared.name, _field(kind, declared, hints[declared.name])) for declared in dataclasses.fields(kind)
        ]
    except NotImplementedError:
        return _by_kio(kind)
    ends_with_tags = kind.__flexible__

    def put(out: bytearray, entity: Any) -> None:
        for name, put_field in fields:
            put_field(out, getattr(entity, name))
        if ends_with_tags:
            out.append(0)

    return put


def _by_kio(kind: Any) -> Put:
    write = entity_writer(kind)

    def put(out: bytearray, entity: Any) -> None:
        buffer = io.BytesIO()
        write(buffer, entity)
        out += buffer.getbuffer()

    return put


def _field(kind: Any, declared: dataclasses.Field[Any], hint: Any) -> Put:
    nested, many = nested_entity(hint)
    is_nullable = type(None) in typing.get_args(hint)
    if nested is None:
        one = _primitive(declared.metadata["kafka_type"], kind.__flexible__, is_nullable and not many)
    elif is_nullable and not many:
        raise NotImplementedError("an entity that may be null")
    else:
        one = putter(nested)
    return _array(one, kind.__flexible__) if many else one


def _array(one: Put, flexible: bool) -> Put:
    def put(out: bytearray, values: Any) -> None:
        if flexible:
            out += _varint(0 if values is None else len(values) + 1)
        else:
            out += struct.pack(">i", -1 if values is None else len(values))
        for value in values or ():
            one(out, value)

    return put


def _primitive(kafka_type: str, flexible: bool, is_nullable: bool) -> Put:
    if kafka_type in ("string", "bytes", "records"):
        return _sized(kafka_type, flexible, is_nullable)
    if kafka_type == "uuid":
        return _put_uuid
    if kafka_type == "error_code":
        return _put_error_code
    if is_nullable or kafka_type not in _FORMATS:
        return _rare(kafka_type, is_nullable)
    pack = struct.Struct(_FORMATS[kafka_type]).pack

    def put(out: bytearray, value: Any) -> None:
        out += pack(value)

    return put


def _sized(kafka_type: str, flexible: bool, is_nullable: bool) -> Put:
    pack_length = struct.Struct(">h" if kafka_type == "string" else ">i").pack

    def put(out: bytearray, value: Any) -> None:
        if value is None:
            if not is_nullable:
                raise TypeError("null in a field that may not be null")
            out += b"\0" if flexible else pack_length(-1)
            return
        content = value.encode() if kafka_type == "string" else value
        size = len(content)
        out += _varint(size + 1) if flexible else pack_length(size)
        out += content

    return put


def _put_uuid(out: bytearray, value: Any) -> None:
    out += (uuid_zero if value is None else value).bytes


def _put_error_code(out: bytearray, value: Any) -> None:
    out += struct.pack(">h", value.value)


def _rare(kafka_type: str, is_nullable: bool) -> Put:
    """Durations and timestamps, as milliseconds; of a timestamp that is null, -1."""
    if kafka_type.startswith("timedelta"):
        pack = struct.Struct(">i" if kafka_type.endswith("i32") else ">q").pack
        return lambda out, value: out.extend(pack(round(value.total_seconds() * 1000)))
    if kafka_type == "datetime_i64":
        return lambda out, value: out.extend(
            struct.pack(">q", -1 if value is None and is_nullable else round(value.timestamp() * 1000))
        )
    raise NotImplementedError(kafka_type)


def _varint(value: int) -> bytes:
    return _SMALL[value] if value < 0x80 else as_varint(value)
