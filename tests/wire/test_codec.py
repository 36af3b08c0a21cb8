"""The codec compared with kio's own entities: every version of every API that Muster serves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader
from kio.serial import entity_reader

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, UndecodableRequest, UndecodableResponse, UnknownApi
from tests.wire.bounds import tagged_fields_end
from tests.wire.judge import KIO_REFUSES

HEARTBEAT = {"group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": None}


@pytest.mark.parametrize("version", codec.versions_of(12))
def test_a_request_comes_back_as_it_was(version: int) -> None:
    frame = codec.encode_request(12, version, 9, "client", HEARTBEAT)
    header = codec.decode_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (12, version, 9, "client")
    entity = codec.decode_request(header, frame)
    assert (entity.group_id, entity.generation_id, entity.member_id) == ("g", 3, "m")


@pytest.mark.parametrize("version", codec.versions_of(11))
def test_a_response_keeps_what_its_version_knows(version: int) -> None:
    body = {
        "throttle_time": 0,
        "error_code": 27,
        "generation_id": 4,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "m",
        "skip_assignment": True,
        "member_id": "m",
        "members": [{"member_id": "m", "group_instance_id": "i", "metadata": b"x"}],
    }
    correlation_id, entity = codec.decode_response(11, version, codec.encode_response(11, version, 7, body))
    assert correlation_id == 7
    assert entity.error_code is ErrorCode.rebalance_in_progress
    assert entity.members[0].metadata == b"x"
    assert codec.field(entity, "skip_assignment", None) == (True if version >= 9 else None)


@pytest.mark.parametrize("version", [3, 4])
@settings(max_examples=500)
@given(st.one_of(st.none(), st.text(max_size=20)), st.binary(max_size=4), st.data())
def test_a_header_is_read_as_kio_reads_it(
    version: int, client_id: str | None, more: bytes, data: st.DataObject
) -> None:
    frame = bytearray(codec.encode_request(12, version, 9, client_id, HEARTBEAT) + more)
    for at in data.draw(st.lists(st.integers(8, min(len(frame), 16) - 1), max_size=3)):
        frame[at] = data.draw(st.integers(0, 255))
    spoiled = bytes(frame[: data.draw(st.integers(8, len(frame)))])
    try:
        expected, end = entity_reader(RequestHeader)(spoiled, 0)
        end = end if version == 3 else tagged_fields_end(spoiled, end)
    except KIO_REFUSES:
        with pytest.raises(UndecodableRequest):
            codec.decode_header(spoiled)
        return
    assert codec.decode_header(spoiled) == (12, version, 9, expected.client_id, end)


def test_null_client_id_is_not_the_empty_one() -> None:
    for client_id in (None, ""):
        assert codec.decode_header(codec.encode_request(12, 4, 1, client_id, HEARTBEAT)).client_id == client_id


@pytest.mark.parametrize("version", [0, 3, 4])
def test_every_truncation_is_undecodable_and_nothing_else(version: int) -> None:
    frame = codec.encode_request(12, version, 9, "client", HEARTBEAT)
    for cut in range(len(frame)):
        with pytest.raises(UndecodableRequest):
            codec.decode_request(codec.decode_header(frame[:cut]), frame[:cut])


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("sent_ms", "read_ms"),
    [
        (-1, -1),
        (86_400_000, 86_400_000),
        ((1 << 63) - 1, (1 << 63) - 1),
        (-(1 << 63), -(1 << 63)),
    ],
)
def test_a_duration_is_any_int64(version: int, sent_ms: int, read_ms: int) -> None:
    """retention_time_ms of OffsetCommit; kio has durations of 292,000 years at most."""
    body = {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m", "retention_time": 77, "topics": []}
    frame = codec.encode_request(8, version, 9, "client", body)
    frame = frame.replace((77).to_bytes(8, "big"), sent_ms.to_bytes(8, "big", signed=True))
    entity = codec.decode_request(codec.decode_header(frame), frame)
    assert (entity.member_id, entity.retention_time) == ("m", read_ms)


def test_bytes_behind_the_body_are_passed_over() -> None:
    frame = codec.encode_request(12, 4, 9, "client", HEARTBEAT) + b"\0\0\0"
    assert codec.decode_request(codec.decode_header(frame), frame).member_id == "m"


@pytest.mark.parametrize("frame", [b"\x03\xe7\0\0" + b"\0" * 8, b"\x00\x0c\0\x63" + b"\0" * 8])
def test_an_unknown_api_or_version_is_named(frame: bytes) -> None:
    with pytest.raises(UnknownApi, match="api key"):
        codec.decode_header(frame)


def test_api_versions_of_an_unknown_version_has_a_readable_header() -> None:
    frame = codec.encode_request(18, 0, 5, "c", {})
    odd = frame[:2] + (99).to_bytes(2, "big") + frame[4:]
    assert codec.decode_header(odd)[:4] == (18, 99, 5, "c")


def test_unknown_tagged_fields_are_passed_over() -> None:
    """KIP-482: a newer client may send them in a known version. Fetch v16 has tags in nested entities."""
    body = {
        "max_wait": 5,
        "min_bytes": 1,
        "topics": [{"topic_id": None, "partitions": [{"partition": 3, "fetch_offset": 9, "partition_max_bytes": 8}]}],
        "forgotten_topics_data": [],
        "replica_state": {"replica_id": 7, "replica_epoch": 1},
    }
    frame = codec.encode_request(1, 16, 5, "c", body)
    header = codec.decode_header(frame)
    plain = codec.decode_request(header, frame)
    assert frame.endswith(b"\x01\x01\x0d" + (7).to_bytes(4, "big") + (1).to_bytes(8, "big") + b"\0")
    own_tags = frame[-16:]  # one
    more = frame[:-16] + b"\x03" + own_tags[1:] + b"\x09\x02zz" + b"\xff\x7f\x81\x01" + b"y" * 129
    nested = more.replace((8).to_bytes(4, "big") + b"\0\0", (8).to_bytes(4, "big") + b"\x01\x05\x01a\0")
    assert nested != more
    for odd in (more, nested):
        assert codec.decode_request(header, odd) == plain


def test_no_text_is_longer_than_kafka_takes() -> None:
    for size_bytes in (127, 128, 32_767):
        codec.decode_request(*_heartbeat("x" * size_bytes))
    codec.decode_request(*_heartbeat("\u00e4" * 16_383))
    header, frame = _heartbeat("x" * 32_767)
    size, longer = (b"\x80\x80\x02", b"\x81\x80\x02")  # varints of the length plus one
    assert frame.count(size) == 1
    with pytest.raises(UndecodableRequest, match="a string of 32768 bytes"):
        codec.decode_request(header, frame.replace(size, longer).replace(b"x", b"xx", 1))


def _heartbeat(member_id: str) -> tuple[codec.Header, bytes]:
    frame = codec.encode_request(12, 4, 1, "c", {**HEARTBEAT, "member_id": member_id})
    return codec.decode_header(frame), frame


def test_librdkafkas_request_for_all_topics_in_v9() -> None:
    """It leaves three extra zeros, which read as one tagged field (confluentinc/librdkafka#5049)."""
    body = {
        "topics": None,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
    }
    frame = codec.encode_request(3, 9, 5, "c", body)
    odd = frame[: codec.decode_header(frame).end] + bytes.fromhex("0000000001000000")
    assert codec.decode_request(codec.decode_header(odd), odd).topics is None


@pytest.mark.parametrize(
    ("api_key", "version"), [(key, version) for key in (15, 16) for version in codec.versions_of(key)]
)
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_responses_merged_as_bytes_equal_those_written_as_a_whole(api_key: int, version: int, count: int) -> None:
    member = {"member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h"}
    members = [{**member, "member_metadata": b"x" * 200, "member_assignment": b""}] * 2
    describing = {"error_message": None, "protocol_data": "range", "members": members, "group_type": "classic"}
    groups = [
        {"error_code": 0, "group_id": f"g{number}", "group_state": "Stable", "protocol_type": "consumer", **describing}
        for number in range(count)
    ]
    body = {"throttle_time": 0, "error_code": 0}
    whole = codec.encode_response(api_key, version, 7, {**body, "groups": groups})
    half = codec.encode_response(api_key, version, 1, {**body, "groups": groups[: count // 2]})
    elements = codec.split_response(api_key, version, half)
    elements += [codec.element(api_key, version, "groups", group) for group in groups[count // 2 :]]
    assert codec.join_response(api_key, version, 7, {**body, "groups": ()}, elements) == whole


GROUP = {"group_id": "g", "group_state": "Stable", "protocol_type": "consumer", "protocol_data": "r"}
DESCRIBED: dict[str, object] = {"groups": [{**GROUP, "error_code": 0, "members": [], "error_message": None}]}


@pytest.mark.parametrize("version", codec.versions_of(15))
def test_every_truncation_of_a_response_is_undecodable_and_nothing_else(version: int) -> None:
    frame = codec.encode_response(15, version, 7, {"throttle_time": 0, **DESCRIBED})
    for cut in range(len(frame)):
        with pytest.raises(UndecodableResponse):
            codec.decode_response(15, version, frame[:cut])


def test_a_hostile_length_in_a_response_is_refused_before_memory_is_reserved_for_it() -> None:
    with pytest.raises(UndecodableResponse, match="an array of 2147483647 elements"):
        codec.decode_response(15, 0, bytes.fromhex("00000007 7fffffff"))


def test_unknown_tagged_fields_of_a_response_are_passed_over() -> None:
    frame = codec.encode_response(15, 6, 7, {"throttle_time": 0, **DESCRIBED})
    tags = b"\x02" + b"\x5b\x02zz" + b"\x5c\x00"
    odd = frame[:4] + tags + frame[5:-1] + tags
    assert codec.decode_response(15, 6, odd) == codec.decode_response(15, 6, frame)


@pytest.mark.parametrize("assignment", [None, {"topic_partitions": [{"topic_id": None, "partitions": [1, 2]}]}])
def test_an_entity_that_may_be_null_is_checked_too(assignment: dict[str, object] | None) -> None:
    body = {"throttle_time": 0, "error_code": 0, "error_message": None, "member_id": "m", "member_epoch": 1}
    frame = codec.encode_response(68, 0, 7, {**body, "heartbeat_interval": 5, "assignment": assignment})
    codec.decode_response(68, 0, frame)
    for cut in range(len(frame)):
        with pytest.raises(UndecodableResponse):
            codec.decode_response(68, 0, frame[:cut])
