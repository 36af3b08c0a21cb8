"""Our writer against kio's, byte for byte, over every class of entity that the codec knows."""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import struct
import typing
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_writer

from actors.wire import codec
from actors.wire.bounds import nested_entity
from actors.wire.writing import putter

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WIDTHS = {"int8": 8, "int16": 16, "uint16": -16, "int32": 32, "uint32": -32, "int64": 64, "uint64": -64}


def kinds() -> list[Any]:
    """Every request and response of every API and version, and their headers."""
    found = {}
    for key in api_key_map:
        for version in codec.versions_of(key):
            for load in (load_request_schema, load_response_schema):
                kind = load(key, version)
                found.update(dict.fromkeys((kind, kind.__header_schema__)))
    return list(found)


def entity_of(kind: Any, draw: random.Random) -> Any:
    """Any entity of that class; a field with a default has it half of the time."""
    hints = typing.get_type_hints(kind)
    values = {}
    for declared in dataclasses.fields(kind):
        if declared.default is not dataclasses.MISSING and draw.random() < 0.5:
            continue
        values[declared.name] = _value(declared, hints[declared.name], draw)
    return kind(**values)


def _value(declared: dataclasses.Field[Any], hint: Any, draw: random.Random) -> Any:
    nested, many = nested_entity(hint)
    may_be_null = type(None) in typing.get_args(hint) and "tag" not in declared.metadata
    if may_be_null and draw.random() < 0.3:
        return None
    if many:
        kafka_type = declared.metadata.get("kafka_type")
        count = draw.choice((0, 1, 3, 130 if nested is None else 2))
        return tuple(entity_of(nested, draw) if nested else _one(kafka_type, draw) for _ in range(count))
    return entity_of(nested, draw) if nested else _one(declared.metadata["kafka_type"], draw)


def _one(kafka_type: str, draw: random.Random) -> Any:
    if kafka_type in _WIDTHS:
        bits = _WIDTHS[kafka_type]
        low, high = (0, 2**-bits - 1) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return draw.choice((low, high, draw.randint(low, high)))
    match kafka_type:
        case "bool":
            return draw.random() < 0.5
        case "float64":
            return draw.random()
        case "string":
            return "".join(draw.choices("aß水🙂", k=draw.choice((0, 1, 40, 200))))
        case "bytes" | "records":
            return draw.randbytes(draw.choice((0, 1, 127, 20_000)))
        case "uuid":
            return UUID(bytes=draw.randbytes(16))
        case "error_code":
            return draw.choice(list(ErrorCode))
        case "timedelta_i32":
            return datetime.timedelta(milliseconds=draw.randint(-(2**31), 2**31 - 1))
        case "timedelta_i64":
            return datetime.timedelta(milliseconds=draw.randint(0, 2**40))
        case "datetime_i64":
            return _EPOCH + datetime.timedelta(milliseconds=draw.randint(0, 2**41))
    raise AssertionError(kafka_type)


def by_kio(kind: Any, entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(kind)(out, entity)
    return out.getvalue()


def ours(kind: Any, entity: Any) -> bytes:
    out = bytearray(b"before")
    putter(kind)(out, entity)
    assert out.startswith(b"before")
    return bytes(out[6:])


@pytest.mark.parametrize("seed", range(4))
def test_every_class_byte_for_byte(seed: int) -> None:
    draw = random.Random(seed)
    for kind in kinds():
        entity = entity_of(kind, draw)
        assert ours(kind, entity) == by_kio(kind, entity), entity


def test_no_class_is_left_to_kio_that_is_sent_in_great_number() -> None:
    for api_key, name in ((15, "members"), (11, "members"), (9, "topics"), (3, "topics"), (16, "groups")):
        kind = codec.response_type(api_key, codec.versions_of(api_key)[-1])
        assert putter(kind).__qualname__ == "putter.<locals>.put", (kind, name)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("generation_id", 2**31, struct.error),
        ("generation_id", None, struct.error),
        ("member_id", None, TypeError),
        ("member_id", 7, AttributeError),
    ],
)
def test_what_does_not_fit_is_never_written(name: str, value: Any, error: type[Exception]) -> None:
    kind = codec.request_type(12, 4)
    body = {"group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": None, name: value}
    with pytest.raises(error):
        ours(kind, kind(**body))


def test_a_string_that_a_short_length_cannot_hold_is_refused() -> None:
    kind = codec.request_type(12, 3)
    with pytest.raises(struct.error):
        ours(kind, kind(group_id="x" * 40_000, generation_id=1, member_id="m", group_instance_id=None))
