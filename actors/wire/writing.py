"""Kafka requests and responses, from plain Python to bytes, by kio's schemas.

kio writes entities. A body would first have to be converted to entities, and every length in them checked as a phantom
type: 34 us for one described group. Here each entity class is converted, once, to a list of steps that take the body as
it is. The output is the same as kio's, byte for byte.

Encodings (Kafka protocol guide, "Protocol Primitive Types"): STRING int16, BYTES, RECORDS and ARRAY int32, -1 is
null; in flexible versions (KIP-482) an unsigned varint of the length plus one, 0 is null, and every entity ends
with its tagged fields, without those at their default. An entity that may be null follows an int8, -1 or 1
(KIP-893). A null UUID is all zeros, a null timestamp is -1.
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
import typing
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from kio.serial._implicit_defaults import get_tagged_field_default  # not in any public module of kio
from kio.static.constants import EntityType, uuid_zero

from muster.actors.wire.bounds import MAX_STRING_BYTES, as_varint, nested_entity

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Body: TypeAlias = "dict[str, Any] | DataclassInstance"
"""The fields of an entity, by the names of kio's schema; those of nested entities, too."""
Put = Callable[[bytes], object]
Write = Callable[[Any, Put], None]
"""Puts the bytes of a value, piece by piece. After an exception, the bytes already put are useless."""

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
_MS_FORMATS = {"timedelta_i32": ">i", "timedelta_i64": ">q", "datetime_i64": ">q"}
_SEQUENCES = (list, tuple)
_VARINTS = tuple(as_varint(value) for value in range(0x80))
_ERROR_CODES = {int(code): struct.pack(">h", code) for code in ErrorCode}
_NULL_MS = struct.pack(">q", -1)
_int16 = struct.Struct(">h").pack
_int32 = struct.Struct(">i").pack


class Unwritable(ValueError):
    """A value that its field does not allow: out of range, too long, null, or of another type."""


class MissingField(TypeError):
    """The body lacks a field for which kio has no default."""


_UNFIT = (struct.error, ValueError, OverflowError, TypeError, AttributeError, LookupError)


@cache
def writer(kind: Any) -> Write:
    """A function that writes an entity of class ``kind`` from a dict, or from a dataclass with fields of these names.

    Nested entities are dicts or dataclasses, too, and arrays any iterables of them. Fields that this version does not
    have are ignored. A missing field gets kio's default, or MissingField if there is none. Durations and timestamps
    are milliseconds, timedeltas or datetimes; error codes may be ints. Unwritable names the field whose value does not
    fit.
    """
    hints = typing.get_type_hints(kind)
    declared = dataclasses.fields(kind)
    steps = [_step(kind, one, hints[one.name]) for one in declared if "tag" not in one.metadata]
    tagged = [_tagged(kind, one, hints[one.name]) for one in declared if "tag" in one.metadata]
    tagged.sort(key=lambda one: one.tag)
    has_no_tags = kind.__flexible__ and not tagged

    @cache
    def steps_of(source: type) -> list[tuple[str, Write, bytes | None]]:
        """The steps for a dataclass; with a default those whose field it does not have."""
        if not dataclasses.is_dataclass(source):
            raise TypeError(f"{source.__name__}, neither a dict nor a dataclass")
        has = source.__dataclass_fields__
        for name, _, default in steps:
            if name not in has and default is None:
                raise MissingField(f"{kind.__name__}.{name} is missing")
        return [(name, write_value, None if name in has else default) for name, write_value, default in steps]

    def write(body: Any, put: Put) -> None:
        name = "body"
        try:
            if isinstance(body, dict):
                for name, write_value, default in steps:
                    if name in body:
                        write_value(body[name], put)
                    elif default is not None:
                        put(default)
                    else:
                        raise MissingField(f"{kind.__name__}.{name} is missing")
            else:
                source: type = type(body)
                for name, write_value, default in steps_of(source):
                    if default is None:
                        write_value(getattr(body, name), put)
                    else:
                        put(default)
        except _UNFIT as error:
            raise _named(error, kind, name) from error
        if has_no_tags:
            put(b"\0")
        elif tagged:
            _write_tagged(kind, tagged, body, put)

    return write


def _named(error: Exception, kind: Any, name: str) -> Exception:
    """The error with the field's name; a nested entity's error already has it."""
    if isinstance(error, Unwritable | MissingField):
        return error
    return Unwritable(f"{kind.__name__} v{kind.__version__}, {name}: {type(error).__name__}: {error}")


def _step(kind: Any, declared: dataclasses.Field[Any], hint: Any) -> tuple[str, Write, bytes | None]:
    """Name, writer and the bytes of the default; None for no default."""
    write = _field(kind, declared, hint)
    default = None if declared.default is dataclasses.MISSING else _written(write, declared.default)
    return declared.name, write, default


def _written(write: Write, value: Any) -> bytes:
    parts: list[bytes] = []
    write(value, parts.append)
    return b"".join(parts)


class _Tagged(NamedTuple):
    name: str
    tag: int
    write: Write
    is_required: bool
    default: Any
    default_bytes: bytes | None
    """For arrays and entities, whose types in a body differ from those of kio's default."""


def _tagged(kind: Any, declared: dataclasses.Field[Any], hint: Any) -> _Tagged:
    write = _field(kind, declared, hint)
    default = get_tagged_field_default(declared)
    is_compound = nested_entity(hint) != (None, False)
    return _Tagged(
        name=declared.name,
        tag=declared.metadata["tag"],
        write=write,
        is_required=declared.default is dataclasses.MISSING,
        default=default,
        default_bytes=_written(write, default) if is_compound and default is not None else None,
    )


def _write_tagged(kind: Any, tagged: list[_Tagged], body: Any, put: Put) -> None:
    if not isinstance(body, dict):
        body = {one.name: getattr(body, one.name) for one in tagged if hasattr(body, one.name)}
    parts: list[bytes] = []
    count = 0
    for one in tagged:
        if one.name not in body:
            if one.is_required:
                raise MissingField(f"{kind.__name__}.{one.name} is missing")
            continue
        value = body[one.name]
        if value == one.default:
            continue
        try:
            data = _written(one.write, value)
        except _UNFIT as error:
            raise _named(error, kind, one.name) from error
        if data != one.default_bytes:
            parts += (as_varint(one.tag), as_varint(len(data)), data)
            count += 1
    put(b"".join((as_varint(count), *parts)))


def _field(kind: Any, declared: dataclasses.Field[Any], hint: Any) -> Write:
    nested, many = nested_entity(hint)
    # A tagged field is null when absent, regardless of its type.
    is_nullable = type(None) in typing.get_args(hint) and "tag" not in declared.metadata
    # The client id is never compact, which keeps any version of the header readable (KIP-482).
    is_compact = kind.__flexible__ and not (kind.__type__ is EntityType.header and declared.name == "client_id")
    if nested is not None:
        one = writer(nested)
    else:
        one = _primitive(declared.metadata["kafka_type"], is_compact, is_nullable=is_nullable and not many)
    if many:
        return _array(one, is_compact, is_nullable=is_nullable)
    return _nullable_entity(one) if nested is not None and is_nullable else one


def _primitive(kafka_type: str, is_compact: bool, *, is_nullable: bool) -> Write:
    if kafka_type in _FORMATS:
        return _packed(_FORMATS[kafka_type])
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
        case "bytes" | "records":
            return _bytes(is_compact, is_nullable=is_nullable)
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
    length = _compact_length if is_compact else _int32
    null = length(-1)

    def write(value: Any, put: Put) -> None:
        if value is None and is_nullable:
            put(null)
            return
        if not isinstance(value, bytes):
            if not isinstance(value, bytearray | memoryview):
                raise TypeError(f"{type(value).__name__}, not bytes")
            value = bytes(value)
        put(length(len(value)))
        put(value)

    return write


def _array(write_item: Write, is_compact: bool, *, is_nullable: bool) -> Write:
    length = _compact_length if is_compact else _int32
    null = length(-1)

    def write(items: Any, put: Put) -> None:
        if items is None and is_nullable:
            put(null)
            return
        if not isinstance(items, _SEQUENCES):
            items = tuple(items)
        put(length(len(items)))
        for item in items:
            write_item(item, put)

    return write


def _nullable_entity(write_entity: Write) -> Write:
    def write(value: Any, put: Put) -> None:
        if value is None:
            put(b"\xff")
            return
        put(b"\x01")
        write_entity(value, put)

    return write


def _compact_length(length: int) -> bytes:
    """The length plus one as a varint; -1 is null."""
    return _VARINTS[length + 1] if length < 0x7F else as_varint(length + 1)
