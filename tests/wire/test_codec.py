"""The codec against kio's own entities: every version of every API that Muster serves."""

import pytest

from actors.wire import codec
from actors.wire.codec import ErrorCode, UndecodableRequest, UnknownApi

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


def test_null_client_id_is_not_the_empty_one() -> None:
    for client_id in (None, ""):
        assert codec.decode_header(codec.encode_request(12, 4, 1, client_id, HEARTBEAT)).client_id == client_id


@pytest.mark.parametrize("version", [0, 3, 4])
def test_every_truncation_is_undecodable_and_nothing_else(version: int) -> None:
    frame = codec.encode_request(12, version, 9, "client", HEARTBEAT)
    for cut in range(len(frame)):
        with pytest.raises(UndecodableRequest):
            codec.decode_request(codec.decode_header(frame[:cut]), frame[:cut])


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
