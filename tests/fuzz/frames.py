"""Requests of every API and version that the gateway serves, from kio's schemas, some of them spoiled, by a seed.

A frame is right in all its fields, or wrong in a few (``spoil``): a limit, a length that lies, null, a name that is too
long or climbs directories, a tagged field that is not as it says. Then its bytes as a whole may be cut, extended or
overwritten. Most frames keep enough of their form to reach a handler, an actor, and the log.
"""

from __future__ import annotations

import dataclasses
import random
import typing
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.schema import as_varint, nested_entity
from muster.gateway.listener.api import APIS
from tests.fuzz.values import Values

CORRELATION = slice(4, 8)
"""Place of the correlation id in a frame."""
_SPOILS = (0.0, 0.0, 0.01, 0.04, 0.04, 0.15, 0.6)
"""How likely a field is wrong, by frame."""
_BYTE_CHANGES = 3
"""Frames that are made of one by changing its bytes: they cost less than a new one."""
_EXPENSIVE = frozenset((19, 20, 33, 37, 44, 45))
"""APIs that change topics or configs in ZooKeeper: a tenth as many as of the others."""
_PRODUCE = 0
_MAX_REPEATED = 200
"""Elements of an array that is much longer than any client's."""
_CLIENT_IDS = (
    b"\0\4fuzz",
    b"\xff\xff",
    b"\0\0",
    b"\0\3a\nb",
    b"\xff\xfe",
    b"\0\2\xff\xfe",
    b"\x7f\xff" + 32_767 * b"c",
)
_TAGS = (b"\1\0\0", b"\1\x7f\3abc", b"\2\5\0\5\0", b"\1\0\5a", b"\x7f\0\0", b"\xff\xff\xff\xff\x0f")
"""Unknown ones, twice the same, cut, and more than there are."""

Out = Callable[[bytes], None]
Emit = Callable[[Out, float], None]
"""Emits a value; the second argument is how likely it is wrong."""


class Frame(NamedTuple):
    """A frame without its size."""

    api_key: int
    version: int
    data: bytes
    spoil: float
    heard: Callable[[Any], None] | None = None
    """Gets the response, if the frame is right."""

    def numbered(self, correlation_id: int) -> bytes:
        """Return the frame with its size in front, and that correlation id if it is long enough to have one."""
        data = self.data
        if len(data) >= CORRELATION.stop:
            data = data[: CORRELATION.start] + correlation_id.to_bytes(4, "big") + data[CORRELATION.stop :]
        return len(data).to_bytes(4, "big") + data


class Generator:
    """An endless stream of frames."""

    def __init__(self, seed: int, values: Values, apis: Collection[int] | None = None) -> None:
        """``apis``: their keys; all that are served if not given."""
        self._chance = random.Random(seed)
        self._random = self._chance.random
        self._values = values
        self._emits: dict[Any, Emit] = {}
        served = [APIS[key] for key in sorted(APIS) if apis is None or key in apis]
        self._kinds = [(api.key, version) for api in served for version in api.versions]
        self._shares = [0.1 / len(APIS[key].versions) if key in _EXPENSIVE else 1.0 for key, _ in self._kinds]

    def __iter__(self) -> Iterator[Frame]:
        while True:
            for key, version in self._chance.choices(self._kinds, self._shares, k=64):
                frame = self._frame(key, version)
                yield frame
                if frame.spoil and key not in _EXPENSIVE:
                    for _ in range(_BYTE_CHANGES):
                        yield frame._replace(data=self._with_other_bytes(frame.data))

    def _frame(self, key: int, version: int) -> Frame:
        kind = codec.request_type(key, version)
        spoil = self._chance.choice(_SPOILS)
        if self._random() < spoil / 10:
            version = self._chance.choice((-1, 99, 32_767, version + 1))
        parts = [key.to_bytes(2, "big"), version.to_bytes(2, "big", signed=True), b"\0\0\0\0"]
        is_flexible = kind.__header_schema__.__flexible__
        parts.append(self._chance.choice(_CLIENT_IDS) if self._random() < spoil / 3 else _CLIENT_IDS[0])
        if is_flexible:
            self._tags(parts.append, spoil, {})
        self._emit_of(kind)(parts.append, spoil)
        data = b"".join(parts)
        if self._random() < spoil / 2:
            data = self._with_other_bytes(data)
        return Frame(key, version, data, spoil)

    def _with_other_bytes(self, data: bytes) -> bytes:
        """Cut, extended, or with a few bytes overwritten, beyond the correlation id."""
        at = CORRELATION.stop + int(self._random() * max(1, len(data) - CORRELATION.stop))
        how = int(self._random() * 6)
        if how == 0:
            return data[:at]
        if how == 1:
            return data + self._chance.randbytes(1 + at % 40)
        if how == 2:
            limit = self._chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff"))
            return data[:at] + limit + data[at + len(limit) :]
        if how == 3:
            return data[:at] + data[at + 1 + at % 8 :]
        if how == 4:
            return data[:at] + self._chance.randbytes(1 + at % 8) + data[at:]
        return data[:at] + bytes((int(self._random() * 256),)) + data[at + 1 :]

    def _emit_of(self, kind: Any) -> Emit:
        if kind not in self._emits:
            self._emits[kind] = self._entity(kind)
        return self._emits[kind]

    def _entity(self, kind: Any) -> Emit:
        hints = typing.get_type_hints(kind)
        fields = [(each, self._field(kind, each, hints[each.name])) for each in dataclasses.fields(kind)]
        plain = [emit for declared, emit in fields if "tag" not in declared.metadata]
        tagged = {declared.metadata["tag"]: emit for declared, emit in fields if "tag" in declared.metadata}
        if kind.__flexible__:
            plain.append(partial(self._tags, known=tagged))

        def emit(out: Out, spoil: float) -> None:
            for each in plain:
                each(out, spoil)

        return emit

    def _field(self, kind: Any, declared: dataclasses.Field[Any], hint: Any) -> Emit:
        nested, many = nested_entity(hint)
        flexible = kind.__flexible__
        if nested is not None:
            one = self._emit_of(nested)
            if not many and type(None) in typing.get_args(hint):
                return partial(self._nullable, one)
        else:
            one = self._primitive(declared.name, declared.metadata["kafka_type"], flexible)
        return partial(self._array, one, flexible) if many else one

    def _primitive(self, name: str, kafka_type: str, flexible: bool) -> Emit:
        choices = self._values.choices(name, kafka_type, flexible)
        valid, hostile, chance = choices.valid, choices.hostile, self._random

        def emit(out: Out, spoil: float) -> None:
            chosen = hostile if chance() < spoil else valid
            out(chosen[int(chance() * len(chosen))])

        return emit

    def _nullable(self, one: Emit, out: Out, spoil: float) -> None:
        if self._random() < 0.5:
            out(b"\xff" if self._random() >= spoil else b"\x80")
        else:
            out(b"\1")
            one(out, spoil)

    def _array(self, one: Emit, flexible: bool, out: Out, spoil: float) -> None:
        count = said = int(self._random() * 4) or 1
        if self._random() < spoil:
            said = self._chance.choice((-2, -1, 0, count + 1, 1000, 1 << 20, (1 << 31) - 1))
            if self._random() < 0.2:
                count = said = _MAX_REPEATED
                spoil = 0.0
        if flexible:
            out(as_varint(max(said + 1, 0)))
        else:
            out(said.to_bytes(4, "big", signed=True))
        for _ in range(count):
            one(out, spoil)

    def _tags(self, out: Out, spoil: float, known: dict[int, Emit]) -> None:
        if known and self._random() < 0.3:
            self._known_tags(out, spoil, known)
        elif self._random() >= spoil / 3:
            out(b"\0")
        else:
            out(self._chance.choice(_TAGS))

    def _known_tags(self, out: Out, spoil: float, known: dict[int, Emit]) -> None:
        out(as_varint(len(known)))
        for tag, emit in sorted(known.items()):
            parts: list[bytes] = []
            emit(parts.append, spoil)
            content = b"".join(parts)
            said = len(content) + (self._random() < spoil)
            out(as_varint(tag) + as_varint(said) + content)
