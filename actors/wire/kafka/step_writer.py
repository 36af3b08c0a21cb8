"""Writes a response of many elements: what ``codec.encode_response_parts`` does, in small steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import Buffer
from muster.actors.wire.kafka.schema import as_varint
from muster.actors.wire.kafka.steps import Steps
from muster.actors.wire.kafka.writer import MISSING, Body, EntityWriter, Put, field_of, writer

_AT_ONCE = 8
"""Elements of a step."""
_FEW = 1_000
"""Elements of a longer array are written at once: they are likely to be small."""
_LARGE_BYTES = 16 << 10
_TOGETHER = 500


def encode_response_in_steps(api_key: int, version: int, correlation_id: int, body: Body) -> Steps[list[Buffer]]:
    """Return the parts of a whole response frame without its size prefix. Raises the errors of ``writer.writer``."""
    joined = _Joined(codec.response_head(api_key, version, correlation_id))
    yield from _write(writer(codec.response_type(api_key, version)), body, joined.put)
    return joined.all()


def _collected(elements: Iterable[Any]) -> Steps[list[Any]]:
    found = []
    for element in elements:
        found.append(element)
        if not len(found) % _AT_ONCE:
            yield
    return found


class _Joined:
    """Joins many small parts to a few: a hundred thousand would take long to send."""

    def __init__(self, parts: list[Buffer]) -> None:
        self._parts = parts
        self._small: list[Buffer] = []

    def put(self, part: Buffer) -> None:
        is_large = len(part) > _LARGE_BYTES
        if is_large or len(self._small) > _TOGETHER:
            self._parts.append(b"".join(self._small))
            self._small.clear()
        (self._parts if is_large else self._small).append(part)

    def all(self) -> list[Buffer]:
        return [*self._parts, b"".join(self._small)]


def _write(whole: EntityWriter, body: Any, put: Put) -> Steps[None]:
    for field in whole.entity.fields:
        elements = field_of(body, field.name)
        if not field.is_array or elements is None or elements is MISSING:
            whole.write_field(field, body, put)
            continue
        if not isinstance(elements, list | tuple):
            elements = yield from _collected(elements)
        put(as_varint(len(elements) + 1) if field.is_compact else len(elements).to_bytes(4, "big"))
        nested = writer(field.nested) if field.nested is not None and len(elements) < _FEW else None
        for at in range(0, len(elements), _AT_ONCE):
            some = elements[at : at + _AT_ONCE]
            if nested is None:
                whole.write_elements(field, some, put)
            else:
                for element in some:
                    yield from _write(nested, element, put)
            yield
    whole.write_tail(body, put)
