"""Unknown tagged fields are skipped, in every request that Muster serves (KIP-482).

The requests are written here, from kio's schemas and byte by byte, since no writer adds fields of its own.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.schema import nested_entity
from muster.gateway import apis  # noqa: F401  (registers them)
from muster.gateway.listener.api import APIS

FLEXIBLE = [
    (key, version)
    for key, known in sorted(APIS.items())
    for version in known.versions
    if codec.request_type(key, version).__flexible__
]
NEW_FIELDS = b"\x02" + b"\x5b\x02zz" + b"\xff\x7f\x81\x01" + b"y" * 129
"""Two: tag 91 of two bytes, tag 16383 of 129."""
HOSTILE = {
    "a field that is longer than the frame": b"\x01\x5b\xff\xff\xff\xff\x0f",
    "as many fields as there can be": b"\xff\xff\xff\xff\x0f",
    "a count that does not end": b"\xff" * 12,
    "a field without a size": b"\x01\x5b",
}
_SIZE_BYTES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


def header(key: int, version: int, tags: bytes) -> bytes:
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\x09" + b"\0\x06client" + tags


class Body:
    """A request with one element in each array; tagged fields are at the selected level."""

    def __init__(self, kind: Any, level: int | None, tags: bytes) -> None:
        self._left, self._tags = level, tags
        self.frame = b"".join(self._entity(kind))
        self.is_beyond = self._left is not None and self._left >= 0

    def _entity(self, kind: Any) -> Iterator[bytes]:
        hints = typing.get_type_hints(kind)
        for declared in dataclasses.fields(kind):
            if "tag" in declared.metadata:
                continue
            nested, is_many = nested_entity(hints[declared.name])
            if is_many:
                yield b"\x02"
            elif nested and type(None) in typing.get_args(hints[declared.name]):
                yield b"\x01"
            yield from self._entity(nested) if nested else [self._primitive(declared.metadata["kafka_type"])]
        yield self._tagged()

    def _primitive(self, kafka_type: str) -> bytes:
        if kafka_type in ("string", "bytes", "records"):
            return b"\x02x"
        return b"\0" * (_SIZE_BYTES[kafka_type] - 1) + b"\x01"

    def _tagged(self) -> bytes:
        if self._left is None:
            return b"\0"
        self._left -= 1
        return self._tags if self._left == -1 else b"\0"


def bodies(key: int, version: int, tags: bytes) -> Iterator[bytes]:
    """One for each level of the request, with the tagged fields at that level."""
    for level in range(100):
        body = Body(codec.request_type(key, version), level, tags)
        if body.is_beyond:
            return
        yield body.frame


def decoded(frame: bytes) -> tuple[codec.Header, Any]:
    head = codec.decode_header(frame)
    return head, codec.decode_request(head, frame)


@pytest.mark.parametrize(("key", "version"), FLEXIBLE)
def test_in_the_header(key: int, version: int) -> None:
    body = Body(codec.request_type(key, version), None, b"").frame
    plain = decoded(header(key, version, b"\0") + body)
    odd = decoded(header(key, version, NEW_FIELDS) + body)
    assert odd[0]._replace(end=0) == plain[0]._replace(end=0)
    assert odd[1] == plain[1]
    assert (plain[0].correlation_id, plain[0].client_id) == (9, "client")


@pytest.mark.parametrize(("key", "version"), FLEXIBLE)
def test_at_each_level_of_the_body(key: int, version: int) -> None:
    plain = decoded(header(key, version, b"\0") + Body(codec.request_type(key, version), None, b"").frame)
    odd = list(bodies(key, version, NEW_FIELDS))
    assert odd
    for body in odd:
        assert decoded(header(key, version, b"\0") + body) == plain


@pytest.mark.parametrize("tags", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize(("key", "version"), FLEXIBLE)
def test_lengths_that_lie_are_undecodable_and_nothing_else(key: int, version: int, tags: bytes) -> None:
    with pytest.raises(codec.UndecodableRequest):
        codec.decode_header(header(key, version, tags))
    for body in bodies(key, version, tags):
        end = body.index(tags) + len(tags)
        frame = header(key, version, b"\0") + body[:end]
        with pytest.raises(codec.UndecodableRequest):
            codec.decode_request(codec.decode_header(frame), frame)


@pytest.mark.parametrize(("key", "version"), FLEXIBLE[::7])
def test_cut_anywhere_it_is_undecodable_and_nothing_else(key: int, version: int) -> None:
    frame = header(key, version, NEW_FIELDS) + list(bodies(key, version, NEW_FIELDS))[-1]
    decoded(frame)
    for cut in range(len(frame)):
        with pytest.raises(codec.UndecodableRequest):
            decoded(frame[:cut])
