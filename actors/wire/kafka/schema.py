"""Kafka's messages as kio's schemas have them: the fields of each entity, their types, and what a version allows.

kio generates one dataclass per message *and version*. Readers and writers are made from what is here.
"""

from __future__ import annotations

import dataclasses
import typing
from functools import cache
from typing import Any, NamedTuple

from kio.serial._implicit_defaults import get_tagged_field_default  # not in any public module of kio
from kio.static.constants import EntityType

MAX_STRING_BYTES = 32_767
"""Kafka does not read longer STRINGs, though a compact one could be longer."""
STRUCTS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "error_code": "h",
    "int32": "i",
    "uint32": "I",
    "timedelta_i32": "i",
    "int64": "q",
    "float64": "d",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
"""Types of fixed size, and how a struct packs them."""
NO_DEFAULT = dataclasses.MISSING


class Field(NamedTuple):
    """A field of an entity, or all that is known of it."""

    name: str
    kafka_type: str
    """Type of the value, or of each element of an array; "" for an entity."""
    nested: Any
    """The class of the entity, or of those in the array."""
    is_array: bool
    is_nullable: bool
    is_compact: bool
    """Whether lengths are unsigned varints of the length plus one (KIP-482)."""
    tag: int | None
    """None for a field that is not tagged."""
    default: Any
    """The value if the field is absent; NO_DEFAULT for none."""
    is_required: bool
    """Whether a writer must have a value."""


class Entity(NamedTuple):
    """A message, or a part of one."""

    kind: Any
    """kio's class."""
    name: str
    version: int
    is_flexible: bool
    """Whether it ends with tagged fields."""
    fields: tuple[Field, ...]
    """All that are not tagged, in order."""
    tagged: tuple[Field, ...]
    """By tag."""

    @property
    def names(self) -> tuple[str, ...]:
        """All fields, in the order of kio's class."""
        return tuple(each.name for each in dataclasses.fields(self.kind))


@cache
def entity_of(kind: Any) -> Entity:
    """Return the schema of that class of kio's."""
    hints = typing.get_type_hints(kind)
    fields = [_field(kind, declared, hints[declared.name]) for declared in dataclasses.fields(kind)]
    return Entity(
        kind,
        kind.__name__,
        int(kind.__version__),
        kind.__flexible__,
        tuple(each for each in fields if each.tag is None),
        tuple(sorted((each for each in fields if each.tag is not None), key=lambda each: each.tag or 0)),
    )


def _field(kind: Any, declared: dataclasses.Field[Any], hint: Any) -> Field:
    nested, is_array = nested_entity(hint)
    tag = declared.metadata.get("tag")
    return Field(
        declared.name,
        "" if nested is not None else declared.metadata["kafka_type"],
        nested,
        is_array,
        # A tagged field is null when absent, regardless of its type.
        type(None) in typing.get_args(hint) and tag is None,
        # The client id never is compact: any version of the header stays readable (KIP-482).
        kind.__flexible__ and not (kind.__type__ is EntityType.header and declared.name == "client_id"),
        tag,
        declared.default if tag is None else get_tagged_field_default(declared),
        declared.default is NO_DEFAULT,
    )


def nested_entity(hint: Any) -> tuple[Any, bool]:
    """Return the entity class in a type hint, if any, and whether it is an array."""
    if dataclasses.is_dataclass(hint):
        return hint, False
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return nested_entity(parts[0])[0], True
    found = [nested_entity(part) for part in parts]
    return next((each for each in found if each != (None, False)), (None, False))


def as_varint(value: int) -> bytes:
    """Return an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
