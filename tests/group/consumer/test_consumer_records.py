"""Records of consumer groups, compared with those that a real Apache Kafka has written."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from muster.actors.group.codec.consumer_records import (
    ConsumerKey,
    ConsumerRecord,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    Target,
    by_topic,
    consumer_record,
)
from muster.actors.group.codec.records import decode_key, decode_value
from muster.actors.group.consumer.topics import TopicInfo, Topics
from muster.actors.group.errors import CorruptRecord
from muster.actors.group.hard import HardState
from muster.actors.group.types import GroupId, Record

LINES = [line.split() for line in (Path(__file__).parent / "kafka_records.txt").read_text().splitlines()[1:]]
KAFKAS = [Record(bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)) for key, value in LINES]
G = GroupId("g")
TOPIC = UUID(int=7)


def test_every_type_is_among_them() -> None:
    kinds = {decode_key(record.key).kind for record in KAFKAS}  # type: ignore[union-attr]
    assert kinds == {*ConsumerRecord}


@pytest.mark.parametrize("record", KAFKAS, ids=lambda record: record.key.hex())
def test_records_of_kafka_are_written_as_kafka_did(record: Record) -> None:
    key = decode_key(record.key)
    assert isinstance(key, ConsumerKey)
    value = None if record.value is None else decode_value(key, record.value)
    written = consumer_record(key, value)  # type: ignore[arg-type]
    assert written.key == record.key
    partitions = value.partitions if isinstance(value, Target) else getattr(value, "assigned", {})
    if len(by_topic(partitions)) < 2:  # Kafka writes topics in the order of a hash table
        assert written.value == record.value
    else:
        assert written.value is not None
        assert decode_value(key, written.value) == value


def test_all_of_them_can_be_replayed() -> None:
    hard = HardState()
    for record in KAFKAS:
        hard.replay(record)
    assert hard.consumer_groups


def test_a_record_of_a_kafka_without_assignment_epochs() -> None:
    """KIP-1251 has added them: without, each partition counts as assigned at the member's epoch."""
    key = ConsumerKey(ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, G, "m")
    topic = TOPIC.bytes + b"\x02" + b"\0\0\0\x05" + b"\0"
    data = b"\0\0" + b"\0\0\0\x09" + b"\0\0\0\x08" + b"\x02" + b"\x02" + topic + b"\x01" + b"\0"
    assert decode_value(key, data) == CurrentAssignment(
        epoch=9,
        previous_epoch=8,
        state=MemberState.UNRELEASED_PARTITIONS,
        assigned={(TOPIC, 5): 9},
        revoking={},
    )


def test_a_state_of_a_later_kafka() -> None:
    key = ConsumerKey(ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, G, "m")
    data = b"\0\0" + b"\0\0\0\x09" + b"\0\0\0\x08" + b"\x07" + b"\x01\x01\0"
    assert decode_value(key, data).state is MemberState.UNKNOWN  # type: ignore[union-attr]


def test_an_unknown_version_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="version 1"):
        decode_value(ConsumerKey(ConsumerRecord.METADATA, G), b"\0\1\0\0\0\1\0")


def test_tombstones_in_any_order_leave_nothing() -> None:
    hard = HardState()
    member = MemberMetadata(client_id="c", client_host="/h", topics=("t",))
    keys = [ConsumerKey(ConsumerRecord.MEMBER_METADATA, G, name) for name in ("a", "b")]
    for key in keys:
        hard.put(key, member)
    hard.put(keys[0], None)
    assert [*hard.consumer_groups] == ["g"]
    hard.put(keys[1], None)
    assert hard == HardState()


def test_the_hash_of_topics_is_that_of_kafka() -> None:
    t, u = UUID("5a8d0fe9bb49464da6e01418f0ead65d"), UUID("eedf8957eed542d5b555bfbb9698c110")
    topics = Topics({"t": TopicInfo(t, 3), "u": TopicInfo(u, 3)}, 1)
    assert topics.hash_of(["t"]) & (1 << 64) - 1 == 0xF8A91C33C5D81BE2
    assert topics.hash_of(["u", "nowhere", "t"]) & (1 << 64) - 1 == 0xA1732BAF8E7C59CB
    assert topics.hash_of(["nowhere"]) == topics.hash_of([]) == 0
