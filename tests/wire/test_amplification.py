"""How much memory a frame takes compared with its bytes: while it comes, and when it is read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import UndecodableRequest
from muster.actors.wire.kafka.framing import Framer
from muster.actors.wire.kafka.lengths import MAX_ELEMENTS

MAX_BYTES_PER_ELEMENT = 700
"""Memory of a struct with a string, and an array with one more such struct."""
METADATA, OFFSET_FETCH, DELETE_TOPICS, ALTER_CONFIGS = 3, 9, 20, 44


def metadata(count: int) -> dict[str, Any]:
    topics = [{"topic_id": None, "name": "t"}] * count
    return {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


def offset_fetch(count: int) -> dict[str, Any]:
    topics = [{"name": "t", "partition_indexes": [0]}]
    return {"groups": [{"group_id": "g", "topics": topics}] * (count // 3), "require_stable": False}


def delete_topics(count: int) -> dict[str, Any]:
    return {"topic_names": ["t"] * count, "timeout": 1}


def alter_configs(count: int) -> dict[str, Any]:
    config = {"name": "a", "config_operation": 0, "value": "b"}
    resource = {"resource_type": 2, "resource_name": "r", "configs": [config]}
    return {"resources": [resource] * (count // 2), "validate_only": True}


Body = Callable[[int], dict[str, Any]]
WORST: list[tuple[int, int, Body]] = [
    (METADATA, 12, metadata),
    (OFFSET_FETCH, 8, offset_fetch),
    (DELETE_TOPICS, 5, delete_topics),
    (ALTER_CONFIGS, 1, alter_configs),
]


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("api_key", "version", "body"), WORST, ids=lambda each: getattr(each, "__name__", each))
def test_elements_are_bounded_and_so_is_the_memory_of_a_request(api_key: int, version: int, body: Body) -> None:
    frame = codec.encode_request(api_key, version, 1, "c", body(MAX_ELEMENTS - 10))
    header = codec.decode_header(frame)

    assert peak_bytes(lambda: codec.decode_request(header, frame)) < MAX_ELEMENTS * MAX_BYTES_PER_ELEMENT
    more = codec.encode_request(api_key, version, 1, "c", body(MAX_ELEMENTS + 10))
    with pytest.raises(UndecodableRequest, match="more than 100000 elements"):
        codec.decode_request(codec.decode_header(more), more)


def test_tagged_fields_are_elements() -> None:
    """Also those of the header, which are read before the request is known to be one that is served."""
    tags = b"\xa1\x8d\x06" + b"\1\0" * 100_001
    frame = codec.encode_request(METADATA, 12, 1, "c", metadata(1))
    header = codec.decode_header(frame)
    assert frame[header.end - 1] == frame[-1] == 0
    for data in (frame[: header.end - 1] + tags + frame[header.end :], frame[:-1] + tags):
        with pytest.raises(UndecodableRequest, match="more than 100000 elements"):
            codec.decode_request(codec.decode_header(data), data)


def test_one_message_does_not_use_up_the_elements_of_the_next() -> None:
    frame = codec.encode_request(METADATA, 12, 1, "c", metadata(MAX_ELEMENTS - 10))
    for _ in range(2):
        codec.decode_request(codec.decode_header(frame), frame)


def test_an_announced_frame_takes_no_memory_before_it_comes() -> None:
    framer = Framer(100 << 20)
    announced = (100 << 20).to_bytes(4, "big")

    def slowly() -> None:
        framer.feed(announced)
        for _ in range(20_000):
            framer.feed(b"x")

    assert peak_bytes(slowly) < 50_000
    assert framer.pending_bytes == 20_004
