"""Groups and their offsets with unmodified admin clients, and the metadata of commits across client libraries."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.admin
import kafka.errors
import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, AdminClient

from tests.cluster.consumer_groups.groups import ALL, WAIT_S, create, describe, until_read, working
from tests.cluster.consumer_groups.members import ConfluentMember, Producer
from tests.muster_process import Muster, eventually

Fresh = Callable[[str], str]
COUNT = 60
METADATA = "up to here: café, 消费, 😀"
TOO_LONG = "x" * 4097
"""One more than offset.metadata.max.bytes."""


@pytest.fixture
def topic(muster: Muster, fresh: Fresh) -> str:
    name = fresh("group-admin")
    create(muster, name)
    return name


@pytest.fixture
def admin(muster: Muster) -> AdminClient:
    return AdminClient({"bootstrap.servers": muster.bootstrap})


@pytest.fixture
def kafka_admin(muster: Muster) -> Iterator[kafka.KafkaAdminClient]:
    with contextlib.closing(kafka.KafkaAdminClient(bootstrap_servers=muster.bootstrap.split(","))) as client:
        yield client


@pytest.fixture
def stable(muster: Muster, fresh: Fresh, topic: str) -> Iterator[str]:
    """Yield a group with one static member, which has read and committed everything."""
    group = fresh("stable")
    config = {"group.instance.id": "here", "client.id": "described", "partition.assignment.strategy": "range"}
    producer = Producer(muster.bootstrap, topic)
    producer.send(COUNT)
    producer.flush()
    member = ConfluentMember(muster.bootstrap, topic, group, **config)
    with working(member):
        until_read([member], COUNT)
        yield group


def alter(admin: AdminClient, group: str, partitions: list[TopicPartition]) -> list[TopicPartition]:
    altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])
    return list(altered[group].result(WAIT_S).topic_partitions)


def listed_offsets(admin: AdminClient, group: str, partitions: list[TopicPartition] | None = None) -> dict[int, int]:
    """By partition, of one topic; -1001 is librdkafka's value for none."""
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])
    return {each.partition: each.offset for each in found[group].result(WAIT_S).topic_partitions}


def refusal(future: Any) -> int:
    """Return the code of the future's KafkaException."""
    with pytest.raises(KafkaException) as raised:
        future.result(WAIT_S)
    return int(raised.value.args[0].code())


def test_confluent_admin_lists_groups_by_state_and_type(
    admin: AdminClient, fresh: Fresh, topic: str, stable: str
) -> None:
    empty = fresh("offsets-only")
    assert [each.error for each in alter(admin, empty, [TopicPartition(topic, 0, 1)])] == [None]

    def listed(**filters: Any) -> dict[str, tuple[ConsumerGroupState, ConsumerGroupType, bool]]:
        found = admin.list_consumer_groups(**filters).result(WAIT_S)
        assert found.errors == []
        mine = [each for each in found.valid if each.group_id in {stable, empty}]
        assert len(mine) == len({each.group_id for each in mine}), "one gateway lists a group, not two"
        return {each.group_id: (each.state, each.type, each.is_simple_consumer_group) for each in mine}

    as_stable = {stable: (ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC, False)}
    as_empty = {empty: (ConsumerGroupState.EMPTY, ConsumerGroupType.CLASSIC, True)}
    assert listed() == as_stable | as_empty
    assert listed(states={ConsumerGroupState.STABLE}) == as_stable
    assert listed(states={ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}) == as_empty
    assert listed(types={ConsumerGroupType.CLASSIC}) == as_stable | as_empty
    assert listed(types={ConsumerGroupType.CONSUMER}) == {}
    assert listed(states={ConsumerGroupState.EMPTY}, types={ConsumerGroupType.CLASSIC}) == as_empty


def test_confluent_admin_describes_a_group(muster: Muster, admin: AdminClient, fresh: Fresh, stable: str) -> None:
    description = describe(muster, stable, include_authorized_operations=True)
    assert description.state is ConsumerGroupState.STABLE
    assert description.type is ConsumerGroupType.CLASSIC
    assert description.partition_assignor == "range"
    assert not description.is_simple_consumer_group
    brokers = admin.list_topics(timeout=WAIT_S).brokers
    assert description.coordinator.port == brokers[description.coordinator.id].port
    assert {AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE} <= set(description.authorized_operations)
    [member] = description.members
    assert (member.client_id, member.group_instance_id, member.host) == ("described", "here", "/127.0.0.1")
    assert str(member.member_id).startswith("here-")
    assert {each.partition for each in member.assignment.topic_partitions} == ALL
    assert describe(muster, stable).authorized_operations is None
    assert describe(muster, fresh("never-seen")).state is ConsumerGroupState.DEAD


def test_confluent_admin_changes_offsets_and_deletes_groups(
    admin: AdminClient, fresh: Fresh, topic: str, stable: str
) -> None:
    wanted = [TopicPartition(topic, 0, 3), TopicPartition(topic, 4, 7)]
    [refused, _] = alter(admin, stable, wanted)
    assert refused.error is not None
    assert refused.error.code() == KafkaError.UNKNOWN_MEMBER_ID, "a group with members commits for itself"
    assert sum(listed_offsets(admin, stable).values()) == COUNT
    empty, unknown = fresh("altered"), fresh("unknown")
    assert [each.error for each in alter(admin, empty, wanted)] == [None, None]
    assert listed_offsets(admin, empty) == {0: 3, 4: 7}
    requested = [TopicPartition(topic, 4), TopicPartition(topic, 5)]
    assert listed_offsets(admin, empty, requested) == {4: 7, 5: confluent_kafka.OFFSET_INVALID}
    assert listed_offsets(admin, unknown) == {}
    deleted = admin.delete_consumer_groups([stable, empty, unknown])
    assert refusal(deleted[stable]) == KafkaError.NON_EMPTY_GROUP
    assert deleted[empty].result(WAIT_S) is None
    assert refusal(deleted[unknown]) == KafkaError.GROUP_ID_NOT_FOUND
    assert listed_offsets(admin, empty) == {}
    assert refusal(admin.delete_consumer_groups([empty])[empty]) == KafkaError.GROUP_ID_NOT_FOUND


def test_kafka_python_admin_lists_and_describes(
    kafka_admin: kafka.KafkaAdminClient, fresh: Fresh, topic: str, stable: str
) -> None:
    empty = fresh("offsets-only")
    assert kafka_admin.alter_group_offsets(empty, {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(1, "", -1)})

    def listed(**filters: Any) -> dict[str, tuple[str, str, str]]:
        found = [each for each in kafka_admin.list_groups(**filters) if each["group_id"] in {stable, empty}]
        return {each["group_id"]: (each["group_state"], each["group_type"], each["protocol_type"]) for each in found}

    as_stable, as_empty = {stable: ("Stable", "classic", "consumer")}, {empty: ("Empty", "classic", "")}
    assert listed() == as_stable | as_empty
    assert listed(states_filter=["Stable"]) == as_stable
    assert listed(states_filter=["Empty"], types_filter=["classic"]) == as_empty
    assert listed(types_filter=["share"]) == {}
    described = kafka_admin.describe_groups([stable, empty])
    assert {group: (each["error"], each["group_state"]) for group, each in described.items()} == {
        stable: (None, "Stable"),
        empty: (None, "Empty"),
    }
    [member] = described[stable]["members"]
    assert member["group_instance_id"] == "here"
    [(assigned, partitions)] = [each.values() for each in member["member_assignment"]["assigned_partitions"]]
    assert (assigned, set(partitions)) == (topic, ALL)


def test_kafka_python_admin_changes_offsets_and_groups(
    muster: Muster, kafka_admin: kafka.KafkaAdminClient, fresh: Fresh, topic: str, stable: str
) -> None:
    first, second = kafka.TopicPartition(topic, 0), kafka.TopicPartition(topic, 1)
    assert sum(each.offset for each in kafka_admin.list_group_offsets(stable)[stable].values()) == COUNT
    assert kafka_admin.delete_group_offsets(stable, [first]) == {first: kafka.errors.GroupSubscribedToTopicError}
    empty = fresh("altered")
    wanted = {each: kafka.OffsetAndMetadata(3, METADATA, -1) for each in (first, second)}
    assert kafka_admin.alter_group_offsets(empty, wanted) == dict.fromkeys(wanted, kafka.errors.NoError)
    assert kafka_admin.list_group_offsets(empty) == {empty: wanted}
    reset = kafka_admin.reset_group_offsets(empty, {first: kafka.admin.OffsetSpec.EARLIEST})
    assert reset == {first: {"error": kafka.errors.NoError, "offset": 0}}
    assert kafka_admin.delete_group_offsets(empty, [second]) == {second: kafka.errors.NoError}
    assert kafka_admin.list_group_offsets(empty) == {empty: {first: kafka.OffsetAndMetadata(0, METADATA, -1)}}
    unknown = fresh("unknown")
    deleted = {stable: "NonEmptyGroupError", empty: "OK", unknown: "GroupIdNotFoundError"}
    assert kafka_admin.delete_groups(list(deleted)) == deleted
    evicted = kafka_admin.remove_group_members(stable, [kafka.admin.MemberToRemove(group_instance_id="here")])
    assert set(evicted.values()) == {kafka.errors.NoError}


def by_confluent(muster: Muster, topic: str, group: str) -> None:
    """Commit offset 5 of partition 0 with metadata, as a member of the group; metadata that is too long is refused."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    eventually(lambda: (consumer.poll(0.1), consumer.assignment())[1], bool, "partitions", WAIT_S)
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[TopicPartition(topic, 0, 4, TOO_LONG)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    [committed] = consumer.commit(offsets=[TopicPartition(topic, 0, 5, METADATA)], asynchronous=False)
    assert committed.error is None
    consumer.close()


def by_kafka_python(muster: Muster, topic: str, group: str) -> None:
    """Administer the group with kafka-python."""
    servers = muster.bootstrap.split(",")
    with kafka.KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        eventually(lambda: (consumer.poll(100), consumer.assignment())[1], bool, "partitions", WAIT_S)
        partition = kafka.TopicPartition(topic, 0)
        with pytest.raises(kafka.errors.OffsetMetadataTooLargeError):
            consumer.commit({partition: kafka.OffsetAndMetadata(4, TOO_LONG, -1)})
        consumer.commit({partition: kafka.OffsetAndMetadata(5, METADATA, -1)})


def by_aiokafka(muster: Muster, topic: str, group: str) -> None:
    """Administer the group with aiokafka, which then seeks to its committed offset."""

    async def main() -> None:
        config = {"bootstrap_servers": muster.bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer(topic, enable_auto_commit=False, **config) as consumer:
            partition = aiokafka.TopicPartition(topic, 0)
            assert await consumer.position(partition) == 0  # a reset in flight would undo seek_to_end
            with pytest.raises(aiokafka.errors.OffsetMetadataTooLargeError):
                await consumer.commit({partition: (4, TOO_LONG)})
            await consumer.commit({partition: (5, METADATA)})
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) > 5
            assert await consumer.seek_to_committed(partition) == {partition: 5}
            async with asyncio.timeout(WAIT_S):
                assert (await consumer.getone(partition)).offset == 5

    asyncio.run(main())


def read_by_confluent(muster: Muster, topic: str, group: str) -> TopicPartition:
    """Return the group's committed metadata for partition 0.

    librdkafka copies the metadata without a terminator, and the binding decodes up to the next NUL, whatever lies
    between: `metadata` is only safe to read if it was sent with a NUL, that is, by librdkafka.
    """
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    [found] = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    consumer.close()
    return found


def read_by_kafka_python(muster: Muster, topic: str, group: str) -> tuple[int, str]:
    """Return the group's committed offset and metadata, by kafka-python."""
    servers = muster.bootstrap.split(",")
    with kafka.KafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        found = consumer.committed(kafka.TopicPartition(topic, 0), metadata=True)
    return found.offset, found.metadata


async def read_by_aiokafka(muster: Muster, topic: str, group: str) -> tuple[int, str]:
    """Return them by aiokafka's admin client, since its consumer does not return the metadata."""
    client = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=muster.bootstrap)
    await client.start()
    found = (await client.list_consumer_group_offsets(group))[aiokafka.TopicPartition(topic, 0)]
    await client.close()
    return found.offset, found.metadata


def test_commits_carry_metadata_from_library_to_library(muster: Muster, fresh: Fresh, topic: str) -> None:
    producer = Producer(muster.bootstrap, topic)
    producer.send(COUNT)
    producer.flush()
    groups = {commit: fresh(commit.__name__) for commit in (by_confluent, by_kafka_python, by_aiokafka)}
    for commit, group in groups.items():
        commit(muster, topic, group)
    for commit, group in groups.items():
        stored = METADATA + "\0" if commit is by_confluent else METADATA  # it sends the terminator of its C string, too
        found = read_by_confluent(muster, topic, group)
        assert found.offset == 5
        assert commit is not by_confluent or found.metadata == METADATA
        assert read_by_kafka_python(muster, topic, group) == (5, stored)
        assert asyncio.run(read_by_aiokafka(muster, topic, group)) == (5, stored)
