"""OffsetCommit and OffsetFetch without kio: read as kio reads them, and written as the codec writes them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.actors.group.codec import adapters
from muster.actors.group.codec.plain_commits import read_plain_commit
from muster.actors.group.codec.plain_fetches import read_plain_fetch, write_plain_fetch
from muster.actors.group.messages import FetchedGroup, FetchedTopic, OffsetCommit, OffsetFetch, OffsetFetchResponse
from muster.actors.group.types import GroupId
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode

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


def commit_frame(version: int, body: Any) -> tuple[codec.Header, bytes]:
    frame = codec.encode_request(adapters.OFFSET_COMMIT, version, 5, "client", body)
    return codec.decode_header(frame), frame


@given(st.sampled_from((7, 8, 9)), _commits, st.binary(max_size=3))
def test_a_commit_is_read_as_by_kio(version: int, body: Any, behind: bytes) -> None:
    header, frame = commit_frame(version, body)
    frame += behind
    request = adapters.decode(header.api_key, version, codec.decode_request(header, frame))
    read = adapters.read(header, frame)
    assert isinstance(request, OffsetCommit)
    if any(None in topic.metadata for topic in request.topics):  # "" and null are the same
        assert str(read).replace("None", "''") == str(request).replace("None", "''")
    else:
        assert read == request


@given(_commits, st.data())
def test_changed_bytes_of_a_commit_are_never_read_otherwise_than_by_kio(body: Any, data: st.DataObject) -> None:
    header, frame = commit_frame(8, body)
    changed = bytearray(frame)
    changed[data.draw(st.integers(header.end, len(frame) - 1))] = data.draw(st.integers(0, 255))
    for bad in (bytes(changed), frame[: data.draw(st.integers(header.end, len(frame)))]):
        plain = read_plain_commit(8, bad, header.end)
        if plain is not None:
            request = adapters.decode(header.api_key, 8, codec.decode_request(header, bad))
            assert isinstance(request, OffsetCommit)
            assert plain.group_id == request.group_id
            assert [topic.offsets for topic in plain.topics] == [topic.offsets for topic in request.topics]


def test_the_commit_of_a_consumer_is_plain() -> None:
    for count in (1, 50, 126, 127, 128, 8_000):
        partitions = [{**_plain, "partition_index": index} for index in range(count)]
        topics = [{"name": "t", "partitions": partitions}, {"name": "u", "partitions": [_plain]}]
        body = {
            "group_id": "g",
            "generation_id_or_member_epoch": 4,
            "member_id": "m",
            "group_instance_id": None,
            "topics": topics,
        }
        header, frame = commit_frame(9, body)
        plain = read_plain_commit(9, frame, header.end)
        assert plain is not None
        assert plain.topics[0].indexes == tuple(range(count))
        assert plain.topics[1] == ("u", (3,), (7,), (2,))


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


def fetch_frame(version: int, body: Any) -> tuple[codec.Header, bytes]:
    frame = codec.encode_request(adapters.OFFSET_FETCH, version, 5, "client", body)
    return codec.decode_header(frame), frame


@given(st.sampled_from((8, 9)), _fetches, st.binary(max_size=3))
def test_a_fetch_is_read_as_by_kio(version: int, body: Any, behind: bytes) -> None:
    header, frame = fetch_frame(version, body)
    frame += behind
    assert adapters.read(header, frame) == adapters.decode(9, version, codec.decode_request(header, frame))


@given(st.sampled_from((8, 9)), _fetches, st.data())
def test_changed_bytes_of_a_fetch_are_never_read_otherwise_than_by_kio(
    version: int, body: Any, data: st.DataObject
) -> None:
    header, frame = fetch_frame(version, body)
    changed = bytearray(frame)
    changed[data.draw(st.integers(header.end, len(frame) - 1))] = data.draw(st.integers(0, 255))
    for bad in (bytes(changed), frame[: data.draw(st.integers(header.end, len(frame)))]):
        plain = read_plain_fetch(version, bad, header.end)
        if plain is not None:
            request = adapters.decode(9, version, codec.decode_request(header, bad))
            assert isinstance(request, OffsetFetch)
            assert adapters.read(header, bad) == request
            assert plain.group_id == request.groups[0].group_id


def test_the_fetch_of_a_consumer_is_plain() -> None:
    for version in (8, 9):
        group = {"group_id": "g", "member_id": None, "member_epoch": -1}
        group["topics"] = [{"name": "t", "partition_indexes": [*range(1_000)]}]  # type: ignore[assignment]
        header, frame = fetch_frame(version, {"groups": [group], "require_stable": True})
        plain = read_plain_fetch(version, frame, header.end)
        assert plain == ("g", None, -1, (("t", tuple(range(1_000))),), True)


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
