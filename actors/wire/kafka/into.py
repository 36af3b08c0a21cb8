"""The type that an entity is read into, where its fields are not kept as they come: what a core takes, and no more."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from muster.actors.wire.kafka.schema import STRUCTS, Entity
from muster.actors.wire.kafka.source import packed


class Version:
    """The version of the message."""


class Or(NamedTuple):
    """A field, or this value in versions that lack it."""

    name: str
    default: Any


class First(NamedTuple):
    """The first of these fields that the version has."""

    names: tuple[str, ...]


class Each(NamedTuple):
    """The elements of an array, each read into a type: a tuple; None for null."""

    name: str
    into: Into


class Only(NamedTuple):
    """The entity itself, read into a type: a tuple of one, as in versions that have an array of such."""

    into: Into


class Column(NamedTuple):
    """A field of all elements of an array that may not be null: a tuple; of this value in versions that lack it."""

    array: str
    name: str
    default: Any = None


class Mapped(NamedTuple):
    """The result of a function of what is read."""

    function: Callable[[Any], Any]
    taken: Taken


Taken = str | type[Version] | Or | First | Each | Only | Column | Mapped
"""Source of an argument; a text is the name of a field."""


class Into:
    """Calls ``make`` with these keyword arguments, and ``tuple`` with all of them as its elements.

    Fields that none of them takes are checked, but not kept.
    """

    def __init__(self, make: Callable[..., Any], **taken: Taken) -> None:
        self.make = make
        self.taken = taken

    def of(self, entity: Any, version: int) -> Any:
        """Return what a reader into this type returns for an entity of that version."""
        values = {name: _value_of(taken, entity, version) for name, taken in self.taken.items()}
        return tuple(values.values()) if self.make is tuple else self.make(**values)


def _value_of(taken: Taken, entity: Any, version: int) -> Any:
    match taken:
        case str():
            return getattr(entity, taken)
        case Or():
            return getattr(entity, taken.name, taken.default)
        case First():
            return next(getattr(entity, name) for name in taken.names if hasattr(entity, name))
        case Each():
            elements = getattr(entity, taken.name)
            return None if elements is None else tuple([taken.into.of(each, version) for each in elements])
        case Only():
            return (taken.into.of(entity, version),)
        case Column():
            return tuple([getattr(each, taken.name, taken.default) for each in getattr(entity, taken.array)])
        case Mapped():
            return taken.function(_value_of(taken.taken, entity, version))
    return version


class Plan:
    """The fields of an entity that are taken, of those that its version has."""

    def __init__(self, entity: Entity, into: Into) -> None:
        self.names: set[str] = set()
        self.each: dict[str, Each] = {}
        self.columns: dict[str, list[Column]] = {}
        self._known = {field.name for field in (*entity.fields, *entity.tagged)}
        for taken in into.taken.values():
            self._add(taken)

    def _add(self, taken: Taken) -> None:
        match taken:
            case str():
                self.names.add(taken)
            case Or():
                self.names |= {taken.name} & self._known
            case First():
                self.names.add(next(name for name in taken.names if name in self._known))
            case Each():
                self.each[taken.name] = taken
            case Column():
                self.columns.setdefault(taken.array, []).append(taken)
            case Mapped():
                self._add(taken.taken)
            case Only():
                for each in taken.into.taken.values():
                    self._add(each)


class Uniform(NamedTuple):
    """Elements that have the same size if their strings are empty or null, and if they have no tagged fields."""

    names: tuple[str, ...]
    """Fields; "" for the tagged ones."""
    formats: str
    empty: tuple[int | None, ...]
    """For each field, the length of an empty string, as it is written; the count of no tagged fields."""
    null: tuple[int | None, ...]
    size_bytes: int

    @classmethod
    def of(cls, entity: Entity) -> Uniform | None:
        """Return None if they may have different sizes."""
        columns: list[tuple[str, str, int | None, int | None]] = []
        for field in entity.fields:
            if field.is_array or field.nested is not None or field.kafka_type in ("bytes", "records"):
                return None
            if field.kafka_type != "string":
                columns.append((field.name, STRUCTS[field.kafka_type], None, None))
            elif field.is_compact:
                columns.append((field.name, "B", 1, 0 if field.is_nullable else None))
            else:
                columns.append((field.name, "h", 0, -1 if field.is_nullable else None))
        if entity.is_flexible:
            columns.append(("", "B", 0, None))
        names, formats, empty, null = zip(*columns, strict=True)
        return cls(names, "".join(formats), empty, null, packed("".join(formats)).size)

    def has(self, names: Sequence[str]) -> bool:
        """Return whether the columns of these names are read as they are, and the first one exists."""
        kept = [form for name, form in zip(self.names, self.formats, strict=False) if name in names]
        return "s" not in self.formats and "?" not in kept and names[0] in self.names


@cache
def many_reader(formats: str) -> Callable[[int], Callable[[bytes, int], tuple[Any, ...]]]:
    """Return a function that returns a reader of so many elements."""

    @lru_cache(maxsize=64)
    def many(count: int) -> Callable[[bytes, int], tuple[Any, ...]]:
        return struct.Struct(">" + formats * count).unpack_from

    return many
