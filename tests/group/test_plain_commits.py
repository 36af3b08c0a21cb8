"""Commits that are read without kio are read as kio reads them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.actors.group.codec import adapters
from muster.actors.group.codec.plain_commits import read_plain_commit
from muster.actors.group.messages import OffsetCommit
from muster.actors.wire import codec

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
_bodies = st.fixed_dictionaries(
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


def frame_of(version: int, body: Any) -> tuple[codec.Header, bytes]:
    frame = codec.encode_request(adapters.OFFSET_COMMIT, version, 5, "client", body)
    return codec.decode_header(frame), frame


@given(st.sampled_from((7, 8, 9)), _bodies, st.binary(max_size=3))
def test_read_as_by_kio(version: int, body: Any, behind: bytes) -> None:
    header, frame = frame_of(version, body)
    frame += behind
    request = adapters.decode(header.api_key, version, codec.decode_request(header, frame))
    read = adapters.read(header, frame)
    assert isinstance(request, OffsetCommit)
    if any(None in topic.metadata for topic in request.topics):  # "" and null are the same
        assert str(read).replace("None", "''") == str(request).replace("None", "''")
    else:
        assert read == request


@given(_bodies, st.data())
def test_cut_off_or_changed_bytes_are_never_read_otherwise_than_by_kio(body: Any, data: st.DataObject) -> None:
    header, frame = frame_of(8, body)
    changed = bytearray(frame)
    changed[data.draw(st.integers(header.end, len(frame) - 1))] = data.draw(st.integers(0, 255))
    for bad in (bytes(changed), frame[: data.draw(st.integers(header.end, len(frame)))]):
        plain = read_plain_commit(8, bad, header.end)
        if plain is not None:
            codec.check_request(header, bad)
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
        header, frame = frame_of(9, body)
        plain = read_plain_commit(9, frame, header.end)
        assert plain is not None
        assert plain.topics[0].indexes == tuple(range(count))
        assert plain.topics[1] == ("u", (3,), (7,), (2,))
