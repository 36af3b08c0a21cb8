"""Kafka requests and responses, from plain Python to bytes, by kio's schemas.

kio writes entities. A body would first have to be converted to entities, and every length in them checked as a phantom
type: 34 us for one described group. Here a function that takes the body as it is is made from source text for each
entity class and class of body. The output is the same as kio's, byte for byte. A dict's error codes are checked, those
of other bodies are enums.

Neighbours of fixed size are packed together, and with them the length that follows. Tagged fields at their default are
omitted. Encodings are those of :mod:`muster.actors.wire.kafka.reader`; a null UUID is zeros, a null timestamp is -1.
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from muster.actors.wire.kafka.framing import Buffer
from muster.actors.wire.kafka.schema import MAX_STRING_BYTES, STRUCTS, Entity, Field, as_varint, entity_of
from muster.actors.wire.kafka.source import Source, packed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Body: TypeAlias = "dict[str, Any] | DataclassInstance | NamedTuple"
"""The fields of an entity, by the names of kio's schema; those of nested entities, too."""
Put = Callable[[Buffer], object]
WriteAll = Callable[[Sequence[Any], Put], None]
"""Puts the bytes of some values, piece by piece. After an exception, the bytes already put are useless."""
MAX_MESSAGE_CHARS = 8_000
"""Error messages are cut there: in UTF-8 that is less than the longest STRING."""
MISSING = object()
_VALUE = object()
"""Class of bodies that are values of a primitive type themselves."""
_SMALL = 0x80
"""Lengths below take one byte."""


class Unwritable(ValueError):
    """A value that its field does not allow: out of range, too long, null, or of another type."""


class MissingField(TypeError):
    """The body lacks a field for which kio has no default."""


_UNFIT = (struct.error, ValueError, OverflowError, TypeError, AttributeError, LookupError)


@cache
def writer(kind: Any) -> EntityWriter:
    """Return a writer of entities of class ``kind`` from a dict, or a dataclass or named tuple with these fields.

    Nested entities are such bodies, too, and arrays any iterables of them. Fields that this version does not have are
    ignored. A missing field gets kio's default, or MissingField if there is none. Durations and timestamps are
    milliseconds, timedeltas or datetimes; error codes may be ints. Raises Unwritable, which names the field whose value
    does not fit.
    """
    return EntityWriter(entity_of(kind))


class EntityWriter:
    """Writes one class of entities; see :func:`writer`."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity
        self._made: dict[Any, WriteAll] = {}

    def __call__(self, body: Any, put: Put) -> None:
        self.write_all((body,), put)

    def write_all(self, bodies: Sequence[Any], put: Put) -> None:
        """Write the elements of an array, of which there is one at least."""
        source = type(bodies[0])
        write_all = self._made.get(source) or self._make(source, self.entity)
        try:
            write_all(bodies, put)
        except _UNFIT as error:
            raise self._unfit(bodies, error) from error

    def write_field(self, field: Field, body: Any, put: Put) -> None:
        """Write one of the fields."""
        self._write_part(self.entity._replace(is_flexible=False, fields=(field,), tagged=()), body, put)

    def write_elements(self, field: Field, elements: Sequence[Any], put: Put) -> None:
        """Write some elements of an array, without its length."""
        try:
            element_writer(field)(elements, put)
        except _UNFIT as error:
            raise _named(error, self.entity, field.name) from error

    def write_tail(self, body: Any, put: Put) -> None:
        """Write the tagged fields, which follow all others."""
        self._write_part(self.entity._replace(fields=()), body, put)

    def _write_part(self, part: Entity, body: Any, put: Put) -> None:
        try:
            key = type(body), part.fields, part.is_flexible
            write_all = self._made.get(key) or self._make(key[0], part, key)
            write_all((body,), put)
        except _UNFIT as error:
            name = part.fields[0].name if part.fields else "tagged fields"
            raise _named(error, self.entity, name) from error

    def _make(self, source: type, part: Entity, key: Any = None) -> WriteAll:
        self._made[key or source] = made = _Writing(part, source, self).made()
        return made

    def _unfit(self, bodies: Sequence[Any], error: Exception) -> Exception:
        """Return the error with the name of the field that does not fit."""
        if isinstance(error, Unwritable | MissingField):
            return error
        for body in bodies:
            for field in (*self.entity.fields, *self.entity.tagged):
                if field.is_required and field_of(body, field.name) is MISSING:
                    return _missing(self.entity, field.name)
                try:
                    self.write_field(field._replace(tag=None), body, _nowhere)
                except _UNFIT as found:
                    return found
        return _named(error, self.entity, "body")


def _nowhere(_: Buffer) -> None:
    """Put it nowhere."""


def field_of(body: Any, name: str) -> Any:
    """Return the value of that field of a :data:`Body`; MISSING if it has none."""
    return body.get(name, MISSING) if isinstance(body, dict) else getattr(body, name, MISSING)


def _missing(entity: Entity, name: str) -> MissingField:
    return MissingField(f"{entity.name}.{name} is missing")


def _named(error: Exception, entity: Entity, name: str) -> Exception:
    """Return the error with the field's name; a nested entity's error already has it."""
    if isinstance(error, Unwritable | MissingField):
        return error
    return Unwritable(f"{entity.name} v{entity.version}, {name}: {type(error).__name__}: {error}")


@cache
def element_writer(field: Field) -> WriteAll:
    """Return a writer of elements of that array."""
    if field.nested is not None:
        return writer(field.nested).write_all
    one = field._replace(is_array=False, is_nullable=False)
    return _Writing(Entity(None, field.name, 0, False, (one,), ()), _VALUE, None).made()


class _Writing:
    """The source of a writer of bodies of one class.

    Values of fixed size are collected, and packed with the length of what comes behind them.
    """

    def __init__(self, entity: Entity, source: Any, others: Callable[[Any, Put], None] | None) -> None:
        """``others`` writes a body of another class, which is among those of this one."""
        self._entity = entity
        self._names: frozenset[str] = frozenset()
        self._is_dict = source is dict
        if dataclasses.is_dataclass(source):
            self._names = frozenset(source.__dataclass_fields__)
        elif hasattr(source, "_fields"):
            self._names = frozenset(source._fields)
        elif not self._is_dict and source is not _VALUE:
            error = TypeError(f"{source.__name__}, neither a dict, a dataclass nor a named tuple")
            raise _named(error, entity, "body")
        self._is_value = source is _VALUE
        self._source = Source("write_all(bodies, put)", _HELPERS)
        self._put = "put"
        self._formats = ""
        self._values: list[str] = []
        with self._source.block("for body in bodies:"):
            if others is not None:
                kind, other = self._source.name_of(source), self._source.name_of(others)
                with self._source.block(f"if body.__class__ is not {kind}:"):
                    self._source.add(f"{other}(body, put)", "continue")
            for field in entity.fields:
                self._field(field, self._value(field))
            if entity.is_flexible and not entity.tagged:
                self._fixed("B", "0")
            self._flush()
            if entity.is_flexible and entity.tagged:
                self._tags(entity.tagged)

    def made(self) -> WriteAll:
        """Return the writer."""
        return self._source.made()

    def _value(self, field: Field) -> str:
        """Return an expression of the field's value."""
        if self._is_value:
            return "body"
        if self._is_dict:
            if field.is_required:
                return f"body[{field.name!r}]"
            return f"body.get({field.name!r}, {self._source.name_of(field.default)})"
        if field.name in self._names:
            return f"body.{field.name}"
        if field.is_required:
            raise _missing(self._entity, field.name)
        return self._source.name_of(field.default)

    def _local(self, expression: str) -> str:
        variable = self._source.fresh()
        self._source.add(f"{variable} = {expression}")
        return variable

    def _fixed(self, form: str, value: str) -> None:
        """Have a value packed with its neighbours."""
        self._formats += form
        self._values.append(value)

    def _flush(self) -> None:
        """Put what has been collected."""
        if self._values:
            pack = self._source.name_of(_packing(self._formats))
            self._source.add(f"{self._put}({pack}({', '.join(self._values)}))")
        self._formats, self._values = "", []

    def _length(self, length: str, is_compact: bool, form: str) -> None:
        """Put what has been collected, and a length; of a compact one, the variable is its successor."""
        if not is_compact:
            self._fixed(form, length)
            self._flush()
            return
        before = self._formats, [*self._values]
        self._fixed("B", length)
        if not before[1]:
            self._formats, self._values = "", []
            self._source.add(f"{self._put}(VARINTS[{length}] if {length} < {_SMALL} else varint({length}))")
            return
        with self._source.block(f"if {length} < {_SMALL}:"):
            self._flush()
        self._formats, self._values = before
        with self._source.block("else:"):
            self._flush()
            self._source.add(f"{self._put}(varint({length}))")

    def _field(self, field: Field, value: str) -> None:
        if field.is_array:
            self._array(field, value)
        elif field.nested is not None:
            self._nested(field, value)
        elif field.kafka_type in STRUCTS:
            self._packed(field, value)
        elif field.kafka_type == "string":
            self._string(field, value)
        else:
            self._bytes(field, value)

    def _packed(self, field: Field, value: str) -> None:
        kafka_type = field.kafka_type
        if kafka_type == "uuid":
            value = self._local(value)
            value = f"ZERO if {value} is None else {value}.bytes"
        elif kafka_type == "error_code" and self._is_dict:
            value = f"error_codes[{value}]"
        elif kafka_type.startswith(("timedelta", "datetime")):
            value = self._local(value)
            if field.is_nullable:
                self._source.add(f"if {value} is None: {value} = -1")
            value = f"{value} if {value}.__class__ is int else ms({value})"
        self._fixed(STRUCTS[kafka_type], value)

    def _string(self, field: Field, value: str) -> None:
        source = self._source
        length = source.fresh()
        if field.name == "error_message":  # may repeat a name of the length of the longest STRING
            value = self._local(value)
            source.add(f"if {value} is not None: {value} = {value}[:{MAX_MESSAGE_CHARS}]")
        if field.is_nullable:
            value = self._local(value)
            data = self._local(f"b'' if {value} is None else {value}.encode()")
            null = f"({0 if field.is_compact else -1}) if {value} is None else "
        else:
            data, null = self._local(f"{value}.encode()"), ""
        source.add(f"{length} = {null}len({data}){' + 1' * field.is_compact}")
        if not field.is_compact:
            source.add(f"if {length} > {MAX_STRING_BYTES}: raise too_long({length})")
        self._length(length, field.is_compact, "h")
        source.add(f"{self._put}({data})")

    def _bytes(self, field: Field, value: str) -> None:
        """Put them as they are, without a copy: in one piece or, of records, in a list of pieces."""
        source, is_compact = self._source, field.is_compact
        value, length = self._local(value), source.fresh()
        if field.is_nullable:
            source.add(f"{length} = {0 if is_compact else -1}", f"if {value} is not None:")
            source.add(f" {length} = size({value}){' + 1' * is_compact}")
        else:
            source.add(f"{length} = size({value}){' + 1' * is_compact}")
        self._length(length, is_compact, "i")
        source.add(
            f"if {value}.__class__ is list:",
            f" for part in {value}: {self._put}(part)",
            f"elif {length} > {0 if is_compact else -1}: {self._put}({value})",
        )

    def _nested(self, field: Field, value: str) -> None:
        source, write = self._source, self._source.name_of(writer(field.nested))
        if not field.is_nullable:
            self._flush()
            source.add(f"{write}({value}, {self._put})")
            return
        value = self._local(value)
        self._fixed("b", f"-1 if {value} is None else 1")
        self._flush()
        source.add(f"if {value} is not None: {write}({value}, {self._put})")

    def _array(self, field: Field, value: str) -> None:
        source, is_compact = self._source, field.is_compact
        value, length = self._local(value), source.fresh()
        null = 0 if is_compact else -1
        known = f"{value}.__class__ is tuple or {value}.__class__ is list"
        if field.is_nullable:
            source.add(f"{length} = {null}", f"if {value} is None: {value} = ()", "else:")
            source.add(f" if not ({known}): {value} = tuple({value})")
            source.add(f" {length} = len({value}){' + 1' * is_compact}")
        else:
            source.add(f"if not ({known}): {value} = tuple({value})")
            source.add(f"{length} = len({value}){' + 1' * is_compact}")
        self._length(length, is_compact, "i")
        form = STRUCTS.get(field.kafka_type, "")
        if form in ("b", "h", "i", "q") and field.kafka_type.startswith("int"):
            numbers = source.name_of(_numbers(form))
            source.add(f"if {value}: {self._put}({numbers}(len({value}))(*{value}))")
        else:
            write = source.name_of(element_writer(field))
            source.add(f"if {value}: {write}({value}, {self._put})")

    def _tags(self, tagged: tuple[Field, ...]) -> None:
        source = self._source
        count, tags, parts = source.fresh(), source.fresh(), source.fresh()
        source.add(f"{count} = 0", f"{tags} = []")
        for field in tagged:
            if not self._is_dict and field.name not in self._names:
                if field.is_required:
                    raise _missing(self._entity, field.name)
                continue
            value = self._local(self._value(field))
            with source.block(f"if {value} != {source.name_of(field.default)}:"):
                self._put = f"{parts}.append"
                source.add(f"{parts} = []")
                self._field(field, value)
                self._flush()
                self._put = "put"
                source.add(f"{parts} = b''.join({parts})")
                with source.block(f"if {parts} != {source.name_of(_default_bytes(field))}:"):
                    head = as_varint(field.tag or 0)
                    source.add(f"{tags} += ({head!r}, varint(len({parts})), {parts})", f"{count} += 1")
        source.add(f"put(varint({count}))", f"for part in {tags}: put(part)")


@cache
def _default_bytes(field: Field) -> bytes | None:
    """Return the bytes of an array or entity by default, whose types in a body differ from those of kio's default."""
    if field.default is None or not (field.is_array or field.nested is not None):
        return None
    parts: list[Buffer] = []
    plain = field._replace(tag=None, name="field")
    _Writing(Entity(None, "", 0, False, (plain,), ()), dict, None).made()([{"field": field.default}], parts.append)
    return b"".join(parts)


@cache
def _packing(formats: str) -> Callable[..., bytes]:
    return packed(formats).pack


@cache
def _numbers(form: str) -> Callable[[int], Callable[..., bytes]]:
    """Return a function that returns a writer of so many."""

    @lru_cache(maxsize=256)
    def numbers(count: int) -> Callable[..., bytes]:
        return struct.Struct(f">{count}{form}").pack

    return numbers


def _ms(value: datetime.timedelta | datetime.datetime | int) -> int:
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    return round(value.timestamp() * 1000) if isinstance(value, datetime.datetime) else value


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(len, value))
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{type(value).__name__}, not bytes")
    return len(value)


def _too_long(length: int) -> ValueError:
    return ValueError(f"a string of {length} bytes")


_HELPERS: dict[str, Any] = {
    "VARINTS": tuple(map(as_varint, range(_SMALL))),
    "ZERO": bytes(16),
    "error_codes": {int(code): int(code) for code in ErrorCode},
    "ms": _ms,
    "size": _size,
    "too_long": _too_long,
    "varint": as_varint,
}
