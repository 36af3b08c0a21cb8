"""Reads Kafka's messages by kio's schemas, in one function for each class of entity, made from source text.

The bytes are a client's, so nothing in them is trusted: an array must fit into what follows of the frame before room
is made for its elements, and all arrays of a message together have no more than so many; a slice is never longer than
the frame, and the function looks once, at its end, whether it has read beyond it. Fields of fixed size are read
together, and with them the length that follows. Fields with tags that the schema does not know are passed over.

An entity is read as a dataclass with the names of kio's fields, or into a type of the caller's (``into.py``). Durations
and timestamps are milliseconds, error codes enums; a UUID of zeros is None.

Encodings (Kafka protocol guide, "Protocol Primitive Types"): STRING int16, BYTES, RECORDS and ARRAY int32, -1 is null;
in flexible versions (KIP-482) an unsigned varint of the length plus one, 0 is null, and every entity ends with its
tagged fields. An int8 precedes an entity that may be null; a negative one is null (KIP-893).
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from muster.actors.wire.kafka.into import (
    Column,
    Each,
    First,
    Into,
    Mapped,
    Only,
    Or,
    Plan,
    Taken,
    Uniform,
    many_reader,
)
from muster.actors.wire.kafka.lengths import HELPERS
from muster.actors.wire.kafka.schema import STRUCTS, Entity, Field, entity_of
from muster.actors.wire.kafka.source import Source, packed
from muster.actors.wire.kafka.steps import Steps

Read = Callable[[bytes, int, int], tuple[Any, int]]
"""``read(frame, at, max_elements)``: the entity at that index, and the index behind it. Raises lengths.UNREADABLE."""

ReadInSteps = Callable[[bytes, int, int], Steps[tuple[Any, int]]]

_AT_ONCE = 16
"""Elements of a step."""
_NUMBERS_AT_ONCE = 256
"""Numbers of a step."""
_AT_ONCE_COLUMNS = 512
"""Elements of an array that one struct reads."""


@cache
def reader(kind: Any, into: Into | None = None) -> Read:
    """Return a reader of entities of that class, or into another type."""
    return _Reading(entity_of(kind), into).made()


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

    keeps_checking = True
    """Whether what is not wanted is checked like all else."""

    def __init__(self, entity: Entity, into: Into | None = None, *, in_steps: bool = False) -> None:
        self._in_steps = in_steps
        self._source = Source("read(frame, at, left)", HELPERS)
        self._formats = ""
        self._variables: list[str] = []
        self._behind: list[str] = []
        add = self._source.add
        add("size = len(frame)")
        if in_steps:
            add("steps = 0", "if steps: yield")
        value = self._message(entity, into)
        add("if at > size: raise beyond()", f"return {value}, at")

    def made(self) -> Callable[..., Any]:
        """Return the reader."""
        return self._source.made()

    def _message(self, entity: Entity, into: Into | None) -> str:
        """Read it, and return an expression of what the reader returns."""
        return self._entity(entity, into)

    def _entity(self, entity: Entity, into: Into | None = None, *, is_wanted: bool = True) -> str:
        """Read one, and return an expression of it."""
        if into is not None:
            return self._into(entity, into)
        values = {field.name: self._field(field, is_wanted=is_wanted) for field in entity.fields}
        if entity.is_flexible:
            values |= self._tags(entity.tagged if is_wanted or self.keeps_checking else ())
        self._flush()
        if not is_wanted:
            return ""
        names = entity.names
        made = self._source.name_of(class_of(entity.name, names))
        return f"{made}({', '.join(values[name] for name in names)})"

    def _into(self, entity: Entity, into: Into) -> str:
        plan = Plan(entity, into)
        values: dict[Any, str] = {}
        for field in entity.fields:
            if field.name in plan.columns:
                values |= self._columns(field, plan.columns[field.name])
            else:
                each = plan.each.get(field.name)
                is_wanted = each is not None or field.name in plan.names
                value = self._array(field, each.into) if each is not None else self._field(field, is_wanted=is_wanted)
                values[each or field.name] = value
        if entity.is_flexible:
            values |= self._tags(entity.tagged)
        self._flush()
        return self._made(entity, into, values)

    def _made(self, entity: Entity, into: Into, values: Mapping[Any, str]) -> str:
        """Return an expression of the call of a type."""
        arguments = {name: self._taken(entity, taken, values) for name, taken in into.taken.items()}
        if into.make is tuple:
            return f"({', '.join(arguments.values())},)"
        made = self._source.name_of(into.make)
        return f"{made}({', '.join(f'{name}={value}' for name, value in arguments.items())})"

    def _taken(self, entity: Entity, taken: Taken, values: Mapping[Any, str]) -> str:
        match taken:
            case Mapped():
                return f"{self._source.name_of(taken.function)}({self._taken(entity, taken.taken, values)})"
            case Only():
                return f"({self._made(entity, taken.into, values)},)"
            case Or():
                return values.get(taken.name) or self._source.name_of(taken.default)
            case First():
                return next(values[name] for name in taken.names if name in values)
            case str() | Each() | Column():
                return values[taken]
        return str(entity.version)

    def _columns(self, field: Field, columns: Sequence[Column]) -> dict[Column, str]:
        """Read the elements of an array in columns: at once if all have the same size, as nearly always."""
        source, entity = self._source, entity_of(field.nested)
        values = {column: source.fresh() for column in columns}
        known = {each.name: each for each in entity.fields}
        count = self._count(field)
        for column in columns:
            source.add(f"{values[column]} = ()")
        with source.block(f"if {count} > 0:"):
            self._room(field, count)
            lists = {column: f"{values[column]}.append" for column in columns if column.name in known}
            uniform = Uniform.of(entity)
            is_uniform = uniform is not None and uniform.has([column.name for column in columns])
            if uniform is not None and is_uniform:
                self._at_once(uniform, count, values)
            with source.block(f"if not {values[columns[0]]}:" if is_uniform else "if True:"):
                source.add(*(f"{values[column]} = []" for column in lists))
                with source.block(f"for _ in range({count}):"):
                    read = {
                        each.name: self._field(each, is_wanted=each.name in {c.name for c in columns})
                        for each in entity.fields
                    }
                    if entity.is_flexible:
                        self._tags(entity.tagged)
                    self._flush()
                    source.add(*(f"{append}({read[column.name]})" for column, append in lists.items()))
                source.add(*(f"{values[column]} = tuple({values[column]})" for column in lists))
            for column in columns:
                if column not in lists:
                    source.add(f"{values[column]} = ({source.name_of(column.default)},) * {count}")
        source.add(f"elif {count}: raise negative({count})")
        return values

    def _at_once(self, uniform: Uniform, count: str, values: Mapping[Column, str]) -> None:
        """Read all elements with one struct, if their strings are all empty, or null, and none has tagged fields."""
        source, several, every = self._source, self._source.fresh(), len(uniform.names)
        with source.block(f"if {count} <= {_AT_ONCE_COLUMNS}:"):
            many = source.name_of(many_reader(uniform.formats))
            source.add(f"{several} = {many}({count})(frame, at)")
            conditions, texts = [], {}
            for place, (name, empty, null) in enumerate(zip(uniform.names, uniform.empty, uniform.null, strict=True)):
                if empty is None:
                    continue
                texts[name] = lengths = self._source.fresh()
                source.add(f"{lengths} = {several}[{place}::{every}]")
                is_null = f" or {lengths}.count({null}) == {count}" if null is not None else ""
                conditions.append(f"({lengths}.count({empty}) == {count}{is_null})")
            with source.block(f"if {' and '.join(conditions) or 'True'}:"):
                for column, value in values.items():
                    if column.name in texts:
                        lengths = texts[column.name]
                        null = uniform.null[uniform.names.index(column.name)]
                        text = "''" if null is None else f"'' if {lengths}[0] != {null} else None"
                        source.add(f"{value} = ({text},) * {count}")
                    elif column.name in uniform.names:
                        source.add(f"{value} = {several}[{uniform.names.index(column.name)}::{every}]")
                source.add(f"at += {uniform.size_bytes} * {count}")

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
        if is_wanted or (is_string and self.keeps_checking):
            content.insert(1, f"{value} = frame[at:end]" + ".decode()" * is_string)
        with source.block(f"if 0 < {length} < 128:" if field.is_compact else f"if {length} >= 0:"):
            source.add(*content)
        if is_nullable:
            source.add(f"elif {length} == {'0' if field.is_compact else '-1'}: {value} = None")
        if field.is_compact:
            long = ("long_string" if is_wanted or self.keeps_checking else "long_text") if is_string else "long_bytes"
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

    def _count(self, field: Field) -> str:
        """Read the number of an array's elements, -1 for null, and return its variable."""
        count = self._length("B" if field.is_compact else "i")
        if field.is_compact:
            self._source.add(f"if {count} > 127: {count}, at = varint(frame, at, {count})", f"{count} -= 1")
        return count

    def _room(self, field: Field, count: str) -> None:
        """Check that there may be so many elements."""
        self._source.add(
            f"if {count} * {_least_bytes(field)} > size - at: raise too_long({count}, size - at)",
            f"left -= {count}",
            "if left < 0: raise too_many()",
        )

    def _array(self, field: Field, into: Into | None = None, *, is_wanted: bool = True) -> str:
        value, source = self._source.fresh(), self._source
        count = self._count(field)
        with source.block(f"if {count} > 0:"):
            self._room(field, count)
            if is_wanted:
                self._elements(field, count, value, into)
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

    def _element(self, field: Field, into: Into | None = None, *, is_wanted: bool = True) -> str:
        if field.nested is not None:
            return self._entity(entity_of(field.nested), into, is_wanted=is_wanted)
        one = self._one(field, is_wanted=is_wanted)
        self._flush()
        return one

    def _elements(self, field: Field, count: str, value: str, into: Into | None = None) -> None:
        """Read the elements of an array, of which there is one at least."""
        source, form = self._source, STRUCTS.get(field.kafka_type, "")
        if form and field.kafka_type not in ("uuid", "error_code"):
            self._numbers(form, count, value)
            return
        source.add(f"{value} = []")
        with source.block(f"for _ in range({count}):"):
            source.add(f"{value}.append({self._element(field, into)})")
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

    keeps_checking = False

    def _message(self, entity: Entity, into: Into | None) -> str:
        *before, last = entity.fields
        for field in before:
            self._field(field, is_wanted=False)
        value = self._array(last)
        if entity.is_flexible:
            self._tags(())
        return value

    def _elements(self, field: Field, count: str, value: str, into: Into | None = None) -> None:
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
