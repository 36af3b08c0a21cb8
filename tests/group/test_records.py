"""Records of ``__consumer_offsets``: Kafka's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.group.codec.consumer_protocol import (
    assigned_partitions,
    owned_partitions,
    subscribed_topics,
)
from muster.actors.group.codec.primitives import Writer
from muster.actors.group.codec.records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    MemberMetadata,
    OffsetKey,
    UnknownKey,
    decode_key,
    decode_value,
    group_record,
    offset_record,
)
from muster.actors.group.errors import CorruptRecord
from muster.actors.group.hard import HardState
from muster.actors.group.types import GroupId, MemberId, Record
from tests.group.driver import assignment, subscription

OFFSET_KEY = OffsetKey(GroupId("g"), "t", 3)
GROUP_KEY = GroupKey(GroupId("g"))


def test_bytes_of_a_committed_offset() -> None:
    value = CommittedOffset(offset=258, leader_epoch=4, metadata="m", commit_timestamp_ms=1_000)
    assert offset_record(OFFSET_KEY, value) == Record(
        bytes.fromhex("0001 0001 67 0001 74 00000003"),
        bytes.fromhex("0003 0000000000000102 00000004 0001 6d 00000000000003e8"),
    )
    expiring = CommittedOffset(
        offset=258, leader_epoch=4, metadata="m", commit_timestamp_ms=1_000, expire_timestamp_ms=9
    )
    record = offset_record(OFFSET_KEY, expiring)
    assert record.value == bytes.fromhex("0001 0000000000000102 0001 6d 00000000000003e8 0000000000000009")
    assert decode_value(OFFSET_KEY, record.value) == CommittedOffset(
        offset=258, metadata="m", commit_timestamp_ms=1_000, expire_timestamp_ms=9
    ), "v1 has no leader epoch"
    assert offset_record(OFFSET_KEY, None).value is None


def test_bytes_of_a_group() -> None:
    member = MemberMetadata(
        member_id=MemberId("m"),
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=2,
        session_timeout_ms=1,
        subscription=b"s",
        assignment=b"aa",
    )
    value = GroupMetadata(
        protocol_type="p", generation=5, protocol="r", leader=MemberId("m"), state_timestamp_ms=7, members=(member,)
    )
    record = group_record(GROUP_KEY, value)
    assert record == Record(
        bytes.fromhex("0002 0001 67"),
        bytes.fromhex(
            "0003 0001 70 00000005 0001 72 0001 6d 0000000000000007 00000001"
            "0001 6d 0001 69 0001 63 0002 2f68 00000002 00000001 00000001 73 00000002 6161"
        ),
    )
    assert record.value is not None
    assert decode_value(GROUP_KEY, record.value) == value


@pytest.mark.parametrize(
    ("value", "leader_epoch", "expires"),
    [
        ("0000 0000000000000102 0001 6d 0000000000000005", -1, None),
        ("0001 0000000000000102 0001 6d 0000000000000005 0000000000000009", -1, 9),
        ("0001 0000000000000102 0001 6d 0000000000000005 ffffffffffffffff", -1, None),
        ("0002 0000000000000102 0001 6d 0000000000000005", -1, None),
        ("0003 0000000000000102 00000004 0001 6d 0000000000000005", 4, None),
        ("0004 0000000000000102 00000004 02 6d 0000000000000005 00", 4, None),
        ("0004 0000000000000102 00000004 02 6d 0000000000000005 01 00 02 abcd", 4, None),
    ],
)
def test_offsets_of_every_version(value: str, leader_epoch: int, expires: int | None) -> None:
    assert decode_value(OFFSET_KEY, bytes.fromhex(value)) == CommittedOffset(
        offset=258, leader_epoch=leader_epoch, metadata="m", commit_timestamp_ms=5, expire_timestamp_ms=expires
    )


def test_a_flexible_group() -> None:
    data = bytes.fromhex(
        "0004 02 70 00000005 02 72 00 0000000000000007 02"
        "02 6d 00 02 63 03 2f68 ffffffff 00000001 02 73 01 00 01 05 01 ff"
    )
    value = decode_value(GROUP_KEY, data)
    assert isinstance(value, GroupMetadata)
    (member,) = value.members
    assert (value.leader, value.protocol, member.group_instance_id) == (None, "r", None)
    assert (member.rebalance_timeout_ms, member.subscription, member.assignment) == (1, b"s", b"")


def test_key_types() -> None:
    body = Writer().string("g").string("t").int32(3).bytes()
    assert decode_key(b"\0\0" + body) == decode_key(b"\0\1" + body) == OFFSET_KEY
    assert decode_key(b"\0\x09anything") == UnknownKey(9)


def test_no_cut_record_is_read() -> None:
    for record in (
        offset_record(OFFSET_KEY, CommittedOffset(offset=1, commit_timestamp_ms=1)),
        group_record(GROUP_KEY, GroupMetadata(protocol_type="p", generation=1, protocol=None, leader=None)),
    ):
        key = decode_key(record.key)
        assert not isinstance(key, UnknownKey)
        assert record.value is not None
        for cut in range(len(record.value)):
            with pytest.raises(CorruptRecord):
                decode_value(key, record.value[:cut])
        for cut in range(len(record.key)):
            with pytest.raises(CorruptRecord):
                decode_key(record.key[:cut])


@pytest.mark.parametrize(
    "value",
    [
        "0005",
        "ffff",
        "0003 0001 70 00000005 ffff ffff 0000000000000007 7fffffff",
        "0003 0001 ff 00000005",
        "0004 ffffffffff",
    ],
)
def test_nonsense_is_refused(value: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_value(GROUP_KEY, bytes.fromhex(value))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


@given(texts, texts, int32, int64, int32, texts, int64)
def test_offset_round_trip(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, timestamp: int
) -> None:
    key = OffsetKey(GroupId(group), topic, partition)
    value = CommittedOffset(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp_ms=timestamp)
    hard = HardState()
    assert hard.replay(offset_record(key, value)) == key
    assert hard.get(key) == value
    assert hard.replay(offset_record(key, None)) == key
    assert hard == HardState()


def test_consumer_protocol_data() -> None:
    later = Writer().int16(3).int32(1).string("t").int32(-1).int32(0).int32(7).nullable_string("rack").bytes()
    assert subscribed_topics(later) == {"t"}
    assert subscribed_topics(subscription("a", "b")) == {"a", "b"}
    assert subscribed_topics(b"") is None
    assert subscribed_topics(b"\0\0\x7f\xff\xff\xff") is None
    assert assigned_partitions(assignment(("t", 0), ("t", 1), ("u", 5))) == {("t", 0), ("t", 1), ("u", 5)}
    assert assigned_partitions(b"") == frozenset()
    assert assigned_partitions(assignment(("t", 0))[:-5]) is None
    assert assigned_partitions(assignment(("t", 0)) + b"more") == {("t", 0)}
    many = [("t", index) for index in range(120_000)]
    assert assigned_partitions(assignment(*many)) == {*many}


NO_DATA, SOME_DATA = b"\xff" * 4, b"\0\0\0\1x"
TOPIC = b"\0\0\0\1\0\1t"
OWNED = TOPIC + b"\0\0\0\1\0\0\0\7"


@pytest.mark.parametrize("user_data", [NO_DATA, SOME_DATA])
def test_where_a_subscription_may_end(user_data: bytes) -> None:
    whole = b"\0\0" + TOPIC + user_data
    for end in range(len(whole) + 1):
        is_sound = end == len(whole) or whole[:end] == b"\0\0" + TOPIC
        assert subscribed_topics(whole[:end]) == ({"t"} if is_sound else None)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_owned_partitions_are_read_though_what_follows_is_cut(version: int) -> None:
    subscribed = bytes((0, version)) + TOPIC + NO_DATA + OWNED
    assert owned_partitions(subscribed) == {("t", 7)}
    assert owned_partitions(subscribed[:-1]) == frozenset()
    assert owned_partitions(b"\0\0" + subscribed[2:]) == frozenset()
