"""Large messages are read and written step by step, with the same result as at once."""

from __future__ import annotations

from itertools import islice
from typing import Any
from uuid import UUID

import pytest

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.lengths import MAX_ELEMENTS
from muster.actors.wire.kafka.step_writer import encode_response_in_steps
from muster.actors.wire.kafka.steps import finish
from tests.fuzz.frames import Generator
from tests.fuzz.values import Values

FRAMES, SEED = 4_000, 11
METADATA, OFFSET_FETCH, DESCRIBE_TRANSACTIONS = 3, 9, 65


def names(count: int, version: int = 12) -> bytes:
    topics = [{"topic_id": None, "name": f"topic-{number}"} for number in range(count)]
    flags = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    return codec.encode_request(METADATA, version, 1, "c", {"topics": topics, **flags})


def outcome(read: Any, header: codec.Header, frame: bytes) -> str:
    """Return the entity as text, since NaN is not equal to itself; or that there is none."""
    try:
        return repr(read(header, frame))
    except codec.UndecodableRequest:
        return "undecodable"


def test_any_request_reads_the_same() -> None:
    undecodable = 0
    for frame in islice(Generator(SEED, Values([UUID(int=1 << 100)])), FRAMES):
        try:
            header = codec.decode_header(frame.data)
            codec.request_type(header.api_key, header.api_version)
        except (codec.UnknownApi, codec.UndecodableRequest):
            continue
        expected = outcome(codec.decode_request, header, frame.data)
        undecodable += expected == "undecodable"
        assert outcome(lambda *its: finish(codec.decode_request_in_steps(*its)), header, frame.data) == expected
    assert 100 < undecodable < FRAMES / 2


@pytest.mark.parametrize("version", [1, 12])
def test_many_elements_are_many_steps(version: int) -> None:
    frame = names(5_000, version)
    header = codec.decode_header(frame)
    steps = codec.decode_request_in_steps(header, frame)
    assert sum(1 for _ in steps) > 100
    assert finish(codec.decode_request_in_steps(header, frame)) == codec.decode_request(header, frame)


def test_elements_are_limited_whatever_is_read_in_between() -> None:
    frame = names(MAX_ELEMENTS + 1)
    header, small = codec.decode_header(frame), names(3)

    def read() -> None:
        for _ in codec.decode_request_in_steps(header, frame):
            codec.decode_request(codec.decode_header(small), small)

    with pytest.raises(codec.UndecodableRequest, match="more than 100000 elements"):
        read()
    within = names(MAX_ELEMENTS)
    assert len(finish(codec.decode_request_in_steps(header, within)).topics) == MAX_ELEMENTS


def test_unknown_tags_of_many_elements_are_left_out() -> None:
    frame = names(600)
    header = codec.decode_header(frame)
    body = frame[header.end :]
    count_bytes = 2
    elements, at = [], count_bytes
    for _ in range(600):
        end = at + 16 + 1 + body[at + 16] - 1  # id, length, name
        elements.append(body[at:end] + b"\1\x7f\3abc")  # one tagged field instead of none
        at = end + 1
    tagged = frame[: header.end] + body[:count_bytes] + b"".join(elements) + body[at:]
    assert finish(codec.decode_request_in_steps(header, tagged)) == codec.decode_request(header, frame)


def partitions(count: int) -> list[dict[str, Any]]:
    fields = {"committed_leader_epoch": -1, "metadata": "", "error_code": codec.ErrorCode.none}
    return [{"partition_index": number, "committed_offset": 7, **fields} for number in range(count)]


@pytest.mark.parametrize(("topics", "of_each"), [(1, 3_000), (1_500, 2), (3, 0), (0, 0)])
def test_any_response_is_written_the_same(topics: int, of_each: int) -> None:
    group = {"group_id": "g", "error_code": codec.ErrorCode.none}
    groups = [{**group, "topics": [{"name": f"t{n}", "partitions": partitions(of_each)} for n in range(topics)]}]
    body = {"throttle_time": 0, "groups": groups}
    lazy = {"throttle_time": 0, "groups": (each for each in groups)}
    for version in (8, 9):
        expected = codec.encode_response(OFFSET_FETCH, version, 5, body)
        assert b"".join(finish(encode_response_in_steps(OFFSET_FETCH, version, 5, body))) == expected
    assert b"".join(finish(encode_response_in_steps(OFFSET_FETCH, 9, 5, lazy))) == expected
    assert len(finish(encode_response_in_steps(OFFSET_FETCH, 9, 5, body))) < 100
    of_entity = codec.decode_response(OFFSET_FETCH, 9, expected)[1]
    assert b"".join(finish(encode_response_in_steps(OFFSET_FETCH, 9, 5, of_entity))) == expected


def test_a_value_that_does_not_fit_is_named() -> None:
    bad = {"throttle_time": 0, "groups": [{"group_id": "g", "topics": [{"name": "t", "partitions": partitions(3)}]}]}
    bad["groups"][0]["topics"][0]["partitions"][2]["partition_index"] = 1 << 40  # type: ignore[index]
    with pytest.raises(ValueError, match="partition_index"):
        finish(encode_response_in_steps(OFFSET_FETCH, 8, 5, bad))
    topic = {"topic": "t", "partitions": [0, 1 << 40]}
    numbers = {"transaction_timeout": 0, "transaction_start_time": -1, "producer_id": 1, "producer_epoch": 0}
    described = {"error_code": 0, "transactional_id": "x", "transaction_state": "Ongoing", "topics": [topic], **numbers}
    with pytest.raises(ValueError, match="TopicData v0, partitions"):
        finish(
            encode_response_in_steps(
                DESCRIBE_TRANSACTIONS, 0, 5, {"throttle_time": 0, "transaction_states": [described]}
            )
        )
