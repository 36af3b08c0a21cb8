"""Reads Kafka's messages by kio's schemas, in one function for each class of entity, made from source text.

The bytes are a client's, so nothing in them is trusted: an array must fit into what follows of the frame before room
is made for its elements, and all arrays of a message together have no more than so many; a slice is never longer than
the frame, and the function looks once, at its end, whether it has read beyond it. Fields of fixed size are read
together, and with them the length that follows. Fields with tags that the schema does not know are passed over.

An entity is read as a dataclass with the names of kio's fields. Durations and timestamps are milliseconds, error codes
enums; a UUID of zeros is None.

Encodings (Kafka protocol guide, "Protocol Primitive Types"): STRING int16, BYTES, RECORDS and ARRAY int32, -1 is null;
in flexible versions (KIP-482) an unsigned varint of the length plus one, 0 is null, and every entity ends with its
tagged fields. An int8 precedes an entity that may be null; a negative one is null (KIP-893).
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.wire.kafka.schema import MAX_STRING_BYTES, STRUCTS, Entity, Field, entity_of
from muster.actors.wire.kafka.source import Source, packed
from muster.actors.wire.kafka.steps import Steps

Read = Callable[[bytes, int, int], tuple[Any, int]]
"""``read(frame, at, max_elements)``: the entity at that index, and the index behind it. Raises UNREADABLE."""

ReadInSteps = Callable[[bytes, int, int], Steps[tuple[Any, int]]]

MAX_ELEMENTS = 100_000
"""Limit of all arrays of a request together, tagged fields included.

Kafka 4.4 allows a million for each array, earlier ones limit only the frame; but 100 MB may be fifty million names,
which would take a minute to read, and gigabytes.
"""
_AT_ONCE = 16
"""Elements of a step."""
_NUMBERS_AT_ONCE = 256
"""Numbers of a step."""
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


@cache
def reader(kind: Any) -> Read:
    """Return a reader of entities of that class."""
    return _Reading(entity_of(kind)).made()


@cache
def step_reader(kind: Any) -> ReadInSteps:
    """:func:`reader` for messages of many elements."""
    return _Reading(entity_of(kind), in_steps=True).made()


@cache
def splitter(kind: Any) -> Read:
    """Return a reader of the array that is the last field of such entities: a list of its elements, each as bytes."""
    return _Splitting(entity_of(kind)).made()


@cache
def class_of(name: str, fields: tuple[str, ...]) -> Any:
    """Return the class of what is read; that of another version with the same fields."""
    return dataclasses.make_dataclass(name, fields, slots=True, unsafe_hash=True)


class _Reading:
    """The source of a reader. A field's value is in a variable of its own; ``at`` is the index of what comes next.

    What has a fixed size is collected, and read with the length of what comes behind it. What is not wanted is passed
    over.
    """

    def __init__(self, entity: Entity, *, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self._source = Source("read(frame, at, left)", _HELPERS)
        self._formats = ""
        self._variables: list[str] = []
        self._behind: list[str] = []
        add = self._source.add
        add("size = len(frame)")
        if in_steps:
            add("steps = 0", "if steps: yield")
        value = self._message(entity)
        add("if at > size: raise beyond()", f"return {value}, at")

    def made(self) -> Callable[..., Any]:
        """Return the reader."""
        return self._source.made()

    def _message(self, entity: Entity) -> str:
        """Read it, and return an expression of what the reader returns."""
        return self._entity(entity)

    def _entity(self, entity: Entity, *, is_wanted: bool = True) -> str:
        """Read one, and return an expression of it."""
        values = {field.name: self._field(field, is_wanted=is_wanted) for field in entity.fields}
        if entity.is_flexible:
            values |= self._tags(entity.tagged if is_wanted else ())
        self._flush()
        if not is_wanted:
            return ""
        names = entity.names
        made = self._source.name_of(class_of(entity.name, names))
        return f"{made}({', '.join(values[name] for name in names)})"

    def _fixed(self, formats: str) -> str:
        """Have a value of fixed size read with its neighbours."""
        variable = self._source.fresh()
        self._formats += formats
        self._variables.append(variable)
        return variable

    def _flush(self) -> None:
        """Read what has been collected."""
        size = packed(self._formats).size
        if self._formats == "B":
            self._source.add(f"{self._variables[0]} = frame[at]")
        elif self._variables:
            unpack = self._source.name_of(_unpacking(self._formats))
            self._source.add(f"{', '.join(self._variables)}, = {unpack}(frame, at)")
        if size:
            self._source.add(f"at += {size}")
        self._source.add(*self._behind)
        self._formats, self._variables, self._behind = "", [], []

    def _length(self, form: str) -> str:
        """Read a length, and return its variable."""
        length = self._fixed(form)
        self._flush()
        return length

    def _field(self, field: Field, *, is_wanted: bool = True) -> str:
        if field.is_array:
            return self._array(field, is_wanted=is_wanted)
        if field.nested is None:
            return self._one(field, is_wanted=is_wanted)
        if field.is_nullable:
            return self._nullable(field, is_wanted=is_wanted)
        return self._entity(entity_of(field.nested), is_wanted=is_wanted)

    def _one(self, field: Field, *, is_wanted: bool) -> str:
        """Read a value of a primitive type, or an element of an array of those."""
        if field.kafka_type not in STRUCTS:
            return self._sized(field, is_wanted=is_wanted)
        form = STRUCTS[field.kafka_type]
        if not is_wanted:
            self._formats += f"{packed(form).size}x"
            return ""
        variable = self._fixed(form)
        if field.kafka_type == "uuid":
            self._behind.append(f"{variable} = uuid({variable}) if {variable} != ZERO else None")
        elif field.kafka_type == "error_code":
            self._behind.append(f"{variable} = error_codes[{variable}]")
        elif field.kafka_type == "datetime_i64" and field.is_nullable:
            self._behind.append(f"if {variable} == -1: {variable} = None")
        return variable

    def _sized(self, field: Field, *, is_wanted: bool) -> str:
        """Read a string, or bytes."""
        if field.kafka_type not in ("string", "bytes", "records"):
            raise TypeError(f"no such primitive type: {field.kafka_type}")
        is_string, is_nullable = field.kafka_type == "string", field.is_nullable and not field.is_array
        value, source = self._source.fresh(), self._source
        length = self._length("B" if field.is_compact else "h" if is_string else "i")
        content = [f"end = at + {length}{' - 1' * field.is_compact}", "at = end"]
        if is_wanted:
            content.insert(1, f"{value} = frame[at:end]" + ".decode()" * is_string)
        with source.block(f"if 0 < {length} < 128:" if field.is_compact else f"if {length} >= 0:"):
            source.add(*content)
        if is_nullable:
            source.add(f"elif {length} == {'0' if field.is_compact else '-1'}: {value} = None")
        if field.is_compact:
            long = ("long_string" if is_wanted else "long_text") if is_string else "long_bytes"
            source.add(f"else: {value}, at = {long}(frame, at, {length}, {is_nullable})")
        else:
            source.add(f"else: raise negative({length})")
        return value

    def _nullable(self, field: Field, *, is_wanted: bool) -> str:
        value, source = self._source.fresh(), self._source
        mark = self._length("b")
        source.add(f"{value} = None")
        with source.block(f"if {mark} >= 0:"):
            one = self._entity(entity_of(field.nested), is_wanted=is_wanted)
            if is_wanted:
                source.add(f"{value} = {one}")
        return value

    def _array(self, field: Field, *, is_wanted: bool = True) -> str:
        value, source = self._source.fresh(), self._source
        count = self._length("B" if field.is_compact else "i")
        if field.is_compact:
            source.add(f"if {count} > 127: {count}, at = varint(frame, at, {count})", f"{count} -= 1")
        with source.block(f"if {count} > 0:"):
            source.add(
                f"if {count} * {_least_bytes(field)} > size - at: raise too_long({count}, size - at)",
                f"left -= {count}",
                "if left < 0: raise too_many()",
            )
            if is_wanted:
                self._elements(field, count, value)
            elif field.kafka_type in STRUCTS:
                source.add(f"at += {_least_bytes(field)} * {count}")
            else:
                with source.block(f"for _ in range({count}):"):
                    self._element(field, is_wanted=False)
        source.add(f"elif not {count}: {value} = ()")
        if field.is_nullable:
            source.add(f"elif {count} == -1: {value} = None")
        source.add(f"else: raise negative({count})")
        return value

    def _element(self, field: Field, *, is_wanted: bool = True) -> str:
        if field.nested is not None:
            return self._entity(entity_of(field.nested), is_wanted=is_wanted)
        one = self._one(field, is_wanted=is_wanted)
        self._flush()
        return one

    def _elements(self, field: Field, count: str, value: str) -> None:
        """Read the elements of an array, of which there is one at least."""
        source, form = self._source, STRUCTS.get(field.kafka_type, "")
        if form and field.kafka_type not in ("uuid", "error_code"):
            self._numbers(form, count, value)
            return
        source.add(f"{value} = []")
        with source.block(f"for _ in range({count}):"):
            source.add(f"{value}.append({self._element(field)})")
            if self._in_steps:
                source.add("steps += 1", f"if not steps % {_AT_ONCE}: yield")
        source.add(f"{value} = tuple({value})")

    def _numbers(self, form: str, count: str, value: str) -> None:
        size, numbers, source = packed(form).size, self._source.name_of(_numbers(form)), self._source
        if not self._in_steps:
            source.add(f"{value} = {numbers}({count})(frame, at)", f"at += {size} * {count}")
            return
        source.add(f"{value} = []")
        with source.block(f"while len({value}) < {count}:"):
            some = source.fresh()
            source.add(f"{some} = min({count} - len({value}), {_NUMBERS_AT_ONCE})")
            source.add(f"{value} += {numbers}({some})(frame, at)", f"at += {size} * {some}", "yield")
        source.add(f"{value} = tuple({value})")

    def _tags(self, known: tuple[Field, ...]) -> dict[str, str]:
        """Read the tagged fields, and return the variables of those that are known."""
        source = self._source
        count = self._length("B")
        if not known:
            source.add(f"if {count}: at, left = pass_over(frame, at, {count}, left)")
            return {}
        values = {field.name: source.fresh() for field in known}
        for field in known:
            source.add(f"{values[field.name]} = {source.name_of(_as_read(field.default))}")
        with source.block(f"if {count}:"):
            tag, length, behind = source.fresh(), source.fresh(), source.fresh()
            source.add(f"{count}, at, left = tag_count(frame, at, {count}, left)")
            with source.block(f"for _ in range({count}):"):
                source.add(f"{tag}, {length}, at = tag_head(frame, at)", f"{behind} = at + {length}")
                for field in known:
                    with source.block(f"if {tag} == {field.tag}:"):
                        value = self._field(field)
                        self._flush()
                        source.add(f"{values[field.name]} = {value}")
                        source.add(f"if at != {behind}: raise other_size({tag}, {length})")
                source.add(f"at = {behind}")
        return values


class _Splitting(_Reading):
    """The source of a reader of a message's last array: its elements are passed over, and cut out as they are."""

    def _message(self, entity: Entity) -> str:
        *before, last = entity.fields
        for field in before:
            self._field(field, is_wanted=False)
        value = self._array(last)
        if entity.is_flexible:
            self._tags(())
        return value

    def _elements(self, field: Field, count: str, value: str) -> None:
        source, begin = self._source, self._source.fresh()
        source.add(f"{value} = []")
        with source.block(f"for _ in range({count}):"):
            source.add(f"{begin} = at")
            self._element(field, is_wanted=False)
            source.add(f"{value}.append(frame[{begin}:at])")


def _least_bytes(field: Field) -> int:
    """Return the size of the shortest element of an array."""
    return _least_of(field._replace(is_array=False, is_nullable=False))


def _least_of(field: Field) -> int:
    if field.is_array:
        return 1 if field.is_compact else 4
    if field.nested is not None:
        return 1 if field.is_nullable else _least_entity_bytes(field.nested)
    if field.kafka_type in STRUCTS:
        return packed(STRUCTS[field.kafka_type]).size
    return 1 if field.is_compact else 2 if field.kafka_type == "string" else 4


@cache
def _least_entity_bytes(kind: Any) -> int:
    entity = entity_of(kind)
    return sum(map(_least_of, entity.fields)) + entity.is_flexible


@cache
def _unpacking(formats: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    return packed(formats).unpack_from


@cache
def _numbers(form: str) -> Callable[[int], Callable[[bytes, int], tuple[Any, ...]]]:
    """Return a function that returns a reader of so many."""

    @lru_cache(maxsize=256)
    def numbers(count: int) -> Callable[[bytes, int], tuple[Any, ...]]:
        return struct.Struct(f">{count}{form}").unpack_from

    return numbers


def _as_read(default: Any) -> Any:
    """Return a default of kio's as it would be read."""
    if isinstance(default, datetime.timedelta):
        return default // datetime.timedelta(milliseconds=1)
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        entity = entity_of(type(default))
        values = (_as_read(getattr(default, name)) for name in entity.names)
        return class_of(entity.name, entity.names)(*values)
    return default


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


_HELPERS = {
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
