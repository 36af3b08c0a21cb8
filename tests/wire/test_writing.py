"""The writer compared with kio's own, byte for byte, for every class of entity that the codec knows."""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import Buffer
from muster.actors.wire.kafka.schema import nested_entity
from muster.actors.wire.kafka.writer import MAX_MESSAGE_CHARS, MissingField, Unwritable, writer

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "timedelta_i32": (-(2**31), 2**31 - 1),
    "timedelta_i64": (-(2**45), 2**45),
    "datetime_i64": (0, 2**45),
}
HEARTBEAT = {"group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": None}


def kinds() -> list[Any]:
    """Every request and response of every API and version, and their headers."""
    found: dict[Any, None] = {}
    for key in api_key_map:
        for version in codec.versions_of(key):
            for kind in (codec.request_type(key, version), codec.response_type(key, version)):
                found |= {kind.__header_schema__: None, kind: None}
    return list(found)


KINDS = kinds()


class Plain(typing.NamedTuple):
    """Data twice: as a handler gives it, and as the entity that kio's class has."""

    body: Any
    entity: Any


def anything(kind: Any, draw: random.Random) -> Plain:
    """Return data of that kind.

    A field with a default is omitted at times, or has its default explicitly; unknown keys are added.
    """
    hints = typing.get_type_hints(kind)
    said: dict[str, Any] = {"of another version": object()}
    values: dict[str, Any] = {}
    for declared in dataclasses.fields(kind):
        has_default = declared.default is not dataclasses.MISSING
        if has_default and draw.random() < 0.25:
            continue
        if draw.random() < 0.25 and (has_default or "tag" in declared.metadata):
            value = get_tagged_field_default(declared)
            values[declared.name] = value
            said[declared.name] = _unmade(value)
        else:
            said[declared.name], values[declared.name] = _field(declared, hints[declared.name], draw)
    entity = kind(**values)
    return Plain(entity if draw.random() < 0.1 else said, entity)


def _unmade(value: Any) -> Any:
    """Return a default, as a handler would give it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, tuple) else value


def _field(declared: dataclasses.Field[Any], hint: Any, draw: random.Random) -> Plain:
    nested, many = nested_entity(hint)
    is_nullable = type(None) in typing.get_args(hint) and "tag" not in declared.metadata
    if is_nullable and draw.random() < 0.3:
        return Plain(None, None)
    if not many:
        return anything(nested, draw) if nested else _one(declared.metadata["kafka_type"], draw)
    count = draw.choice((0, 1, 2) if nested else (0, 1, 3, 126, 127, 300))
    items = [anything(nested, draw) if nested else _one(declared.metadata["kafka_type"], draw) for _ in range(count)]
    said = [item.body if nested else item.entity for item in items]
    return Plain(draw.choice((list, tuple, iter))(said), tuple(item.entity for item in items))


def _one(kafka_type: str, draw: random.Random) -> Plain:
    if kafka_type in _RANGES:
        low, high = _RANGES[kafka_type]
        number = draw.choice((low, high, draw.randint(low, high)))
        if kafka_type.startswith("timedelta"):
            duration = datetime.timedelta(milliseconds=number)
            return Plain(draw.choice((number, duration)), duration)
        if kafka_type.startswith("datetime"):
            moment = _EPOCH + datetime.timedelta(milliseconds=number)
            return Plain(draw.choice((number, moment)), moment)
        return Plain(number, number)
    match kafka_type:
        case "error_code":
            code = draw.choice(list(ErrorCode))
            return Plain(draw.choice((int(code), code)), code)
        case "bool":
            value: Any = draw.random() < 0.5
        case "float64":
            value = draw.uniform(-1e300, 1e300)
        case "string":
            value = "".join(draw.choices("aß水🙂", k=draw.choice((0, 1, 40, 200))))
        case "bytes" | "records":
            value = draw.randbytes(draw.choice((0, 1, 126, 127, 17_000)))
        case "uuid":
            value = draw.choice((None, UUID(int=0), UUID(bytes=draw.randbytes(16))))
        case _:
            raise AssertionError(kafka_type)
    return Plain(value, value)


def by_kio(kind: Any, entity: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(kind)(out, entity)
    return out.getvalue()


def written(kind: Any, body: Any) -> bytes:
    parts: list[Buffer] = []
    writer(kind)(body, parts.append)
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(5))
def test_every_class_byte_for_byte(seed: int) -> None:
    draw = random.Random(seed)
    for kind in KINDS:
        body, entity = anything(kind, draw)
        expected = by_kio(kind, entity)
        assert written(kind, body) == expected, entity
        assert written(kind, entity) == expected, entity


@pytest.mark.parametrize("version", codec.versions_of(15))
def test_an_element_is_written_as_in_its_response(version: int) -> None:
    kind = codec.response_type(15, version)
    draw = random.Random(version)
    body, entity = anything(_element(kind, "groups"), draw)
    assert codec.element(15, version, "groups", body) == by_kio(type(entity), entity)


def test_a_field_without_a_default_must_be_there() -> None:
    missing = 0
    for kind in KINDS:
        body, entity = anything(kind, random.Random(1))
        if not isinstance(body, Mapping):
            continue
        required = [one.name for one in dataclasses.fields(kind) if one.default is dataclasses.MISSING]
        for name in required:
            whole = {one.name: getattr(entity, one.name) for one in dataclasses.fields(kind)}
            del whole[name]
            with pytest.raises(MissingField, match=f"{kind.__name__}.{name} is missing"):
                written(kind, whole)
            missing += 1
    assert missing > 1000


@pytest.mark.parametrize(
    ("kafka_type", "unfit"),
    [
        *((kafka_type, low - 1) for kafka_type, (low, _) in _RANGES.items() if kafka_type[-2:] != "64"),
        *((kafka_type, high + 1) for kafka_type, (_, high) in _RANGES.items() if kafka_type[-2:] != "64"),
        *((kafka_type, wrong) for kafka_type in _RANGES for wrong in (2**63, -(2**63) - 1, "1", 1.5)),
        *((kafka_type, wrong) for kafka_type in ("string", "bytes", "uuid", "float64") for wrong in (7j, object())),
        *(("error_code", wrong) for wrong in (9999, None, "none", list[int]())),
        ("string", b"x"),
        ("string", "\ud800"),
        ("bytes", "x"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(kafka_type: str, unfit: Any) -> None:
    kind, name = _field_of(kafka_type)
    entity = anything(kind, random.Random(0)).entity
    whole = {one.name: getattr(entity, one.name) for one in dataclasses.fields(kind)}
    with pytest.raises(Unwritable, match=f"{kind.__name__} v.*{name}"):
        written(kind, {**whole, name: unfit})


@cache
def _field_of(kafka_type: str) -> tuple[Any, str]:
    """Return a class, possibly a nested one, and the name of a field of that type in it."""
    pending = list(KINDS)
    for kind in pending:
        hints = typing.get_type_hints(kind)
        for declared in dataclasses.fields(kind):
            nested, many = nested_entity(hints[declared.name])
            if nested is not None:
                pending.append(nested)
            elif not many and declared.metadata["kafka_type"] == kafka_type:
                return kind, declared.name
    raise AssertionError(kafka_type)


@pytest.mark.parametrize("version", [3, 4])
def test_null_where_it_may_not_be_is_refused(version: int) -> None:
    for name in ("group_id", "generation_id", "member_id"):
        with pytest.raises(Unwritable, match=name):
            codec.encode_request(12, version, 1, "c", {**HEARTBEAT, name: None})
    for members in (None, [None]):
        body = {"group_id": "g", "members": members}
        with pytest.raises(Unwritable, match=r"members|MemberIdentity"):
            codec.encode_request(13, version, 1, "c", body)


def test_no_text_is_longer_than_its_length_can_say() -> None:
    """Compact lengths can say more: hostile requests use that, which :mod:`muster.actors.wire.kafka.reader` refuses."""
    assert len(codec.encode_request(12, 3, 1, "c", {**HEARTBEAT, "member_id": "x" * 32_767})) > 32_767
    with pytest.raises(Unwritable, match=r"member_id.* 32768 bytes"):
        codec.encode_request(12, 3, 1, "c", {**HEARTBEAT, "member_id": "ä" * 16_384})


@pytest.mark.parametrize("version", [0, 2])
def test_an_error_message_with_the_longest_name_is_cut(version: int) -> None:
    """Found by fuzzing: a response that could not be written, or not be read."""
    message = "No such topic as " + "💣" * 8_191
    part = {"partition_id": 0, "error_code": 3, "error_message": message}
    elections = [{"topic": "t", "partition_result": [part]}]
    body = {"throttle_time": 0, "error_code": 0, "replica_election_results": elections}
    frame = codec.encode_response(43, version, 1, body)
    _, entity = codec.decode_response(43, version, frame)
    assert entity.replica_election_results[0].partition_result[0].error_message == message[:MAX_MESSAGE_CHARS]
    with pytest.raises(Unwritable, match="client_id"):
        codec.encode_request(12, 4, 1, "c" * 32_768, HEARTBEAT)


def test_the_error_names_the_innermost_field() -> None:
    partition = {"partition_index": 2**31, "error_code": 0}
    with pytest.raises(Unwritable, match=r"^OffsetCommitResponsePartition v8, partition_index: "):
        codec.encode_response(8, 8, 1, {"throttle_time": 0, "topics": [{"name": "t", "partitions": [partition]}]})


def _element(kind: Any, name: str) -> Any:
    return nested_entity(typing.get_type_hints(kind)[name])[0]


def test_tagged_fields_at_their_default_are_left_out() -> None:
    kind = _element(_element(codec.response_type(1, 16), "responses"), "partitions")
    least = {"partition_index": 1, "error_code": 0, "high_watermark": 5, "aborted_transactions": None, "records": None}
    plain = written(kind, least)
    assert plain.endswith(b"\0")
    said = {**least, "current_leader": {"leader_id": -1, "leader_epoch": -1}}
    assert written(kind, said) == plain
    said["current_leader"]["leader_epoch"] = 7  # type: ignore[index]
    assert written(kind, said) == plain[:-1] + b"\x01\x01\x09" + b"\xff" * 4 + b"\0\0\0\x07" + b"\0"


@dataclasses.dataclass(frozen=True, slots=True)
class Committed:
    """An OffsetCommit response, of which some versions need more."""

    topics: Any
    throttle_time: typing.ClassVar[int] = 0
    of_another_version: object = None


@dataclasses.dataclass
class Topic:
    name: str
    partitions: Any


def test_dicts_and_dataclasses_are_written_alike_and_mix() -> None:
    partitions = [{"partition_index": 1, "error_code": 0}]
    nested = {"name": "t", "partitions": partitions}
    expected = codec.encode_response(8, 9, 1, {"throttle_time": 0, "topics": [nested]})
    for body in (Committed([nested]), Committed([Topic("t", partitions)])):
        assert codec.encode_response(8, 9, 1, body) == expected
    assert codec.encode_response(8, 9, 1, {"throttle_time": 0, "topics": (Topic("t", partitions),)}) == expected


def test_a_dataclass_without_a_field_gets_its_default_or_is_refused() -> None:
    group = {"error_code": 0, "group_id": "g", "topics": ()}
    kind = _element(codec.response_type(9, 8), "groups")
    assert written(kind, dataclasses.make_dataclass("Fetched", ["group_id", "topics"])("g", ())) == written(kind, group)
    for name, body in (
        ("throttle_time", Topic("t", ())),
        ("partition_index", Committed([Topic("t", [Topic("", ())])])),
    ):
        with pytest.raises(MissingField, match=f"{name} is missing"):
            codec.encode_response(8, 9, 1, body)


@pytest.mark.parametrize(
    "body", [None, 7, "topics", (), [], {"topics"}, object(), Topic], ids=lambda body: type(body).__name__
)
def test_what_is_neither_a_dict_nor_a_dataclass_is_refused(body: Any) -> None:
    kinds = (codec.request_type(16, 0), codec.request_type(16, 4), codec.response_type(8, 9))
    assert written(kinds[0], {}) == b"", "it has no fields"
    for kind in kinds:
        with pytest.raises(
            Unwritable, match=f"{kind.__name__} .*body: TypeError: .*neither a dict, a dataclass nor a named tuple"
        ):
            written(kind, body)
    with pytest.raises(Unwritable, match=r"OffsetCommitResponseTopic .*neither a dict, a dataclass nor a named tuple"):
        codec.encode_response(8, 9, 1, Committed([body]))
