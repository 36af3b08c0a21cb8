"""Requests that are read into those of the core, and the OffsetFetch response that is written without the codec."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.group.codec import adapters
from muster.actors.group.codec.plain_fetches import write_plain_fetch
from muster.actors.group.messages import FetchedGroup, FetchedTopic, OffsetCommit, OffsetFetchResponse
from muster.actors.group.types import GroupId
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from tests.wire.test_writing import anything

_int32 = st.integers(-(2**31), 2**31 - 1)
_names = st.text(max_size=140)
_partitions = st.fixed_dictionaries(
    {
        "partition_index": _int32,
        "committed_offset": st.integers(-(2**63), 2**63 - 1),
        "committed_leader_epoch": _int32,
        "committed_metadata": st.one_of(st.just(""), st.none(), st.text(max_size=3)),
    }
)
_plain = {"partition_index": 3, "committed_offset": 7, "committed_leader_epoch": 2, "committed_metadata": ""}
_commits = st.fixed_dictionaries(
    {
        "group_id": _names,
        "generation_id_or_member_epoch": _int32,
        "member_id": _names,
        "group_instance_id": st.one_of(st.none(), _names),
        "topics": st.lists(
            st.fixed_dictionaries(
                {
                    "name": _names,
                    "partitions": st.one_of(
                        st.lists(_partitions, max_size=4), st.integers(1, 300).map(lambda count: [_plain] * count)
                    ),
                }
            ),
            max_size=3,
        ),
    }
)


_retention_ms = st.sampled_from((-1, 0, 60_000, 2**63 - 1))


def frame_of(api_key: int, version: int, body: Any) -> tuple[codec.Header, bytes]:
    frame = codec.encode_request(api_key, version, 5, "client", body)
    return codec.decode_header(frame), frame


def spoiled(header: codec.Header, frame: bytes, data: st.DataObject) -> bytes:
    """Return the frame with another byte in its body, possibly cut off."""
    if len(frame) == header.end:
        return frame
    changed = bytearray(frame)
    changed[data.draw(st.integers(header.end, len(frame) - 1))] = data.draw(st.integers(0, 255))
    return bytes(changed[: data.draw(st.integers(header.end, len(frame)))])


def check_read(header: codec.Header, frame: bytes) -> None:
    """Check that the coordinator reads what the entity says, or refuses the frame where the entity is refused."""
    try:
        entity = codec.decode_request(header, frame)
    except codec.UndecodableRequest:
        with pytest.raises(codec.UndecodableRequest):
            adapters.read(header, frame)
        return
    assert adapters.read(header, frame) == adapters.decode(header.api_key, header.api_version, entity)


@given(st.sampled_from((2, 5, 7, 8, 9)), _commits, st.binary(max_size=3), st.data())
def test_a_commit_is_read_as_its_entity(version: int, body: Any, behind: bytes, data: st.DataObject) -> None:
    header, frame = frame_of(adapters.OFFSET_COMMIT, version, {**body, "retention_time": data.draw(_retention_ms)})
    check_read(header, frame + behind)
    check_read(header, spoiled(header, frame, data))


@pytest.mark.parametrize("count", [0, 1, 512, 513])
@pytest.mark.parametrize("metadata", ["", None, "x"])
@pytest.mark.parametrize("version", codec.versions_of(8))
def test_a_commit_of_many_partitions(version: int, metadata: str | None, count: int) -> None:
    """If all metadata is empty, one struct reads them, up to some hundred."""
    partitions = [{**_plain, "partition_index": index, "committed_metadata": metadata} for index in range(count)]
    topics = [{"name": "t", "topic_id": None, "partitions": partitions}] * 2
    group = {"group_id": "g", "generation_id_or_member_epoch": 4, "member_id": "m", "group_instance_id": None}
    header, frame = frame_of(adapters.OFFSET_COMMIT, version, {**group, "retention_time": -1, "topics": topics})
    check_read(header, frame)
    request = adapters.read(header, frame)
    assert isinstance(request, OffsetCommit)
    assert request.topics[1].partitions == tuple(range(count))
    assert request.topics[1].metadata == (metadata,) * count


_fetched_topics = st.fixed_dictionaries(
    {
        "name": _names,
        "partition_indexes": st.one_of(st.lists(_int32, max_size=4), st.integers(1, 300).map(lambda n: [*range(n)])),
    }
)
_fetched_groups = st.fixed_dictionaries(
    {
        "group_id": _names,
        "member_id": st.one_of(st.none(), _names),
        "member_epoch": _int32,
        "topics": st.one_of(st.none(), st.lists(_fetched_topics, max_size=3)),
    }
)
_fetches = st.fixed_dictionaries(
    {
        "groups": st.one_of(_fetched_groups.map(lambda one: [one]), st.lists(_fetched_groups, max_size=3)),
        "require_stable": st.booleans(),
    }
)
_errors = st.sampled_from((ErrorCode.none, ErrorCode.unknown_server_error, ErrorCode.unknown_topic_id))


@given(st.sampled_from((8, 9)), _fetches, st.binary(max_size=3), st.data())
def test_a_fetch_is_read_as_its_entity(version: int, body: Any, behind: bytes, data: st.DataObject) -> None:
    header, frame = frame_of(adapters.OFFSET_FETCH, version, body)
    check_read(header, frame + behind)
    check_read(header, spoiled(header, frame, data))


@given(st.sampled_from(sorted(adapters.READ_INTO)), st.integers(), st.data())
@settings(max_examples=200)
def test_any_request_is_read_as_its_entity(api_key: int, seed: int, data: st.DataObject) -> None:
    draw = random.Random(seed)
    version = draw.choice(codec.versions_of(api_key))
    header, frame = frame_of(api_key, version, anything(codec.request_type(api_key, version), draw).body)
    check_read(header, frame)
    check_read(header, spoiled(header, frame, data))


@given(st.sampled_from((7, 8, 9, 10)), st.data())
def test_a_response_is_written_as_by_the_codec(version: int, data: st.DataObject) -> None:
    topics = []
    for size in data.draw(st.lists(st.one_of(st.integers(0, 3), st.just(200)), max_size=3)):
        indexes, epochs = tuple(range(size)), (data.draw(_int32),) * size
        offsets = (data.draw(st.integers(-(2**63), 2**63 - 1)),) * size
        metadata = (data.draw(st.sampled_from(("", "", "x"))),) * size
        topics.append(FetchedTopic(data.draw(_names), None, indexes, offsets, epochs, metadata, data.draw(_errors)))
    group = FetchedGroup(group_id=GroupId(data.draw(_names)), error_code=data.draw(_errors), topics=tuple(topics))
    response = OffsetFetchResponse(groups=(group,))
    header = codec.Header(adapters.OFFSET_FETCH, version, 7, None, 0)
    expected = codec.encode_response(adapters.OFFSET_FETCH, version, 7, adapters.encode(version, response))
    assert adapters.write(header, response) == expected


def test_the_response_to_a_consumer_is_plain() -> None:
    topic = FetchedTopic("t", None, (0, 1), (5, -1), (-1, -1), ("", ""))
    response = OffsetFetchResponse(groups=(FetchedGroup(group_id=GroupId("g"), topics=(topic,)),))
    assert write_plain_fetch(9, 1, response) is not None
