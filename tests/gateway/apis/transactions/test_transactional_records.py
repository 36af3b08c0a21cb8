"""Transactions as partitions and readers see them. There is no coordinator: batches begin one unverified, markers are
those of an administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from muster.actors.wire.internal.markers import write_marked
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.actors.wire.kafka.framing import framed
from muster.gateway.apis.partitions import owner_of
from muster.gateway.cli.main import cli
from muster.gateway.listener.connection import Connection
from muster.placement.view import OFFSETS_TOPIC, Topic
from tests.fuzz.batches import changed
from tests.gateway.apis.test_data_apis import (
    FETCH,
    LATEST,
    LIST_OFFSETS,
    errors,
    fetch,
    fetch_body,
    list_offsets,
    owned,
    produce,
    values,
)
from tests.gateway.group_client import find
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Client, Serving
from tests.log.support import NOW_MS, client_batch, everything_has_run
from tests.log.transactions.support import P, Q, client_view
from tests.zookeeper_fixture import eventually

PROPERTIES = {"transaction.partition.verification.enable": "false"}
WRITE_TXN_MARKERS, DESCRIBE_PRODUCERS = 27, 61
READ_COMMITTED = 1
CLASSIC = 11
"""Produce version."""
WAIT_MS = 60_000

Fresh = Callable[[str], str]
Read = Callable[[str, str, bool], list[bytes]]


def write(
    client: Client, topic: Topic, partition: int, producer: tuple[int, int, int], value: bytes = b"v"
) -> list[ErrorCode]:
    batch = client_batch(1, producer=producer, value=value, transactional=True)
    return errors(produce(client, (topic, partition, batch), version=CLASSIC, transactional_id="tx"))


def mark(
    client: Client,
    producer: tuple[int, int],
    *places: tuple[str, Sequence[int]],
    commit: bool,
    version: int = 2,
    coordinator_epoch: int = 0,
) -> list[tuple[str, int, ErrorCode]]:
    marker = {
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "transaction_result": commit,
        "topics": [{"name": name, "partition_indexes": list(partitions)} for name, partitions in places],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": 0,
    }
    (found,) = client.exchange(WRITE_TXN_MARKERS, version, {"markers": [marker]}).markers
    assert found.producer_id == producer[0]
    return [(topic.name, each.partition_index, each.error_code) for topic in found.topics for each in topic.partitions]


def test_a_batch_that_cannot_be_read_begins_no_transaction(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    sound = client_batch(1, producer=(P, 0, 0), transactional=True)
    poison = changed(sound, record_count=5, last_offset_delta=4)
    refused = produce(full.client, (topic, 0, poison), version=CLASSIC, transactional_id="tx")
    assert errors(refused) == [ErrorCode.invalid_record]
    assert errors(produce(full.client, (topic, 0, client_batch(1)))) == [ErrorCode.none]
    (found,) = fetch(full.client, (topic, 0, 0), isolation_level=READ_COMMITTED)
    assert (found.high_watermark, found.last_stable_offset) == (1, 1)
    assert write(full.client, topic, 0, (P, 0, 0)) == [ErrorCode.none]


def history(full: Serving, topic: Topic) -> list[bytes]:
    """Fill partition 0: P commits, aborts and commits, Q aborts in between, others write. Returns what counts."""
    client = full.client
    writes = [(P, b"one"), (Q, b"no"), (P, b"two"), (None, b"three"), (P, None), (P, b"gone"), (Q, None), (P, False)]
    sequences = {P: 0, Q: 0}
    for producer_id, value in (*writes, (P, b"four"), (P, None)):
        if isinstance(value, bytes) and producer_id is not None:
            assert write(client, topic, 0, (producer_id, 0, sequences[producer_id]), value) == [ErrorCode.none]
            sequences[producer_id] += 1
        elif isinstance(value, bytes):
            assert errors(produce(client, (topic, 0, client_batch(value=value)))) == [ErrorCode.none]
        else:
            assert producer_id is not None
            commit = producer_id == P and value is None
            [(_, _, error)] = mark(client, (producer_id, 0), (topic.name, [0]), commit=commit)
            assert error is ErrorCode.none
    return [b"one", b"two", b"three", b"four"]


def librdkafka(bootstrap: str, topic: str, commits_only: bool) -> list[bytes]:
    isolation = "read_committed" if commits_only else "read_uncommitted"
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "g",
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is not None:
                return found
            found.append(message.value() or b"")
    finally:
        consumer.close()


def aiokafka(bootstrap: str, topic: str, commits_only: bool) -> list[bytes]:
    async def read() -> list[bytes]:
        isolation = "read_committed" if commits_only else "read_uncommitted"
        partition = AioPartition(topic, 0)
        found: list[bytes] = []
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            while await consumer.position(partition) < end:
                batch = await consumer.getmany(partition, timeout_ms=200)
                found += [record.value for records in batch.values() for record in records]
        return found

    return asyncio.run(asyncio.wait_for(read(), 30))


def kafka_python(bootstrap: str, topic: str, commits_only: bool) -> list[bytes]:
    isolation = "read_committed" if commits_only else "read_uncommitted"
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest")
    partition = PythonPartition(topic, 0)
    found: list[bytes] = []
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            found += [record.value for records in consumer.poll(200).values() for record in records]
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("read", [librdkafka, aiokafka, kafka_python])
def test_a_real_consumer_sees_what_was_committed(full: Serving, fresh: Fresh, read: Read) -> None:
    topic = full.create(fresh("t"), 1)
    expected = history(full, topic)
    with reachable(full) as bootstrap:
        assert read(bootstrap, topic.name, True) == expected
        assert len(read(bootstrap, topic.name, False)) == len(expected) + 2


def test_tail_shows_what_was_committed(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 1)
    expected = history(full, topic)
    with reachable(full) as bootstrap:
        arguments = ["topics", "tail", topic.name, "--from-beginning", "--count", str(len(expected))]
        shown = CliRunner().invoke(cli, [*arguments, "--bootstrap-server", bootstrap])
    assert shown.stdout.encode().splitlines() == expected


@pytest.mark.parametrize("version", versions_of(FETCH))
def test_both_isolation_levels_in_every_version(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"), 1)
    expected = history(full, topic)
    assert write(full.client, topic, 0, (Q, 0, 1), b"open") == [ErrorCode.none]
    (uncommitted,) = fetch(full.client, (topic, 0, 0), version=version)
    (committed,) = fetch(full.client, (topic, 0, 0), version=version, isolation_level=READ_COMMITTED)
    for found in (uncommitted, committed):
        assert (found.high_watermark, found.last_stable_offset) == (11, 10)
    assert uncommitted.aborted_transactions is None
    assert [(each.producer_id, each.first_offset) for each in committed.aborted_transactions] == [(Q, 1), (P, 5)]
    assert len(values(uncommitted.records)) == 11
    aborted = [(each.producer_id, each.first_offset) for each in committed.aborted_transactions]
    records, position = client_view(committed.records, aborted, 0)
    assert ([record.value for record in records], position) == (expected, 10)
    (at_the_end,) = fetch(full.client, (topic, 0, 10), version=version, isolation_level=READ_COMMITTED)
    assert (at_the_end.records, list(at_the_end.aborted_transactions)) == (b"", [])
    (failed,) = fetch(full.client, (topic, 0, 99), version=version, isolation_level=READ_COMMITTED)
    assert (failed.error_code, failed.last_stable_offset) == (ErrorCode.offset_out_of_range, -1)


def waiting(full: Serving) -> int:
    assert full.actors is not None
    return sum(len(server._fetches._waiting) for server in full.actors.log_servers.values())


def test_a_reader_of_what_is_committed_waits_for_the_marker(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 1)
    assert write(full.client, topic, 0, (P, 0, 0), b"first") == [ErrorCode.none]
    with full.connect() as client:
        body = fetch_body((topic, 0, 0), isolation_level=READ_COMMITTED, max_wait=WAIT_MS, min_bytes=1)
        client.request(FETCH, 18, body)
        eventually(lambda: waiting(full) == 1, "it waits")
        assert write(full.client, topic, 0, (P, 0, 1), b"second") == [ErrorCode.none]
        assert waiting(full) == 1
        mark(full.client, (P, 0), (topic.name, [0]), commit=True)
        (found,) = client.response(FETCH, 18).responses[0].partitions
    assert values(found.records)[:2] == [b"first", b"second"]
    assert found.last_stable_offset == 3


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS))
def test_the_latest_offset_is_that_of_the_isolation_level(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"), 1)
    produce(full.client, (topic, 0, client_batch(2)))
    write(full.client, topic, 0, (P, 0, 0))
    times = [LATEST, NOW_MS, NOW_MS + 10**9]

    def found(isolation_level: int) -> list[int]:
        partitions = [{"partition_index": 0, "timestamp": time} for time in times]
        offsets = []
        for partition in partitions:
            body = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": [partition]}], "timeout": 5000}
            response = full.exchange(LIST_OFFSETS, version, body | {"isolation_level": isolation_level})
            offsets.append(response.topics[0].partitions[0].offset)
        return offsets

    assert found(0) == [3, 0, -1]
    assert found(READ_COMMITTED) == ([2, 0, -1] if version > 1 else [3, 0, -1])
    mark(full.client, (P, 0), (topic.name, [0]), commit=False)
    assert found(READ_COMMITTED)[0] == 4


@pytest.mark.parametrize("version", versions_of(WRITE_TXN_MARKERS))
def test_markers_reach_every_partition_and_say_which_do_not_exist(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"), 20)
    left, right = owned(full, topic).values()
    for partition in (left, right):
        assert write(full.client, topic, partition, (P, 0, 0)) == [ErrorCode.none]
    places = [(topic.name, [left, right, 20]), ("nope", [0])]
    assert mark(full.client, (P, 0), *places, commit=True, version=version, coordinator_epoch=3) == [
        (topic.name, left, ErrorCode.none),
        (topic.name, right, ErrorCode.none),
        (topic.name, 20, ErrorCode.unknown_topic_or_partition),
        ("nope", 0, ErrorCode.unknown_topic_or_partition),
    ]
    for partition in (left, right):
        (found,) = fetch(full.client, (topic, partition, 0), isolation_level=READ_COMMITTED)
        assert found.last_stable_offset == found.high_watermark == 2
    refused = mark(full.client, (P, 0), (topic.name, [left]), commit=True, version=version, coordinator_epoch=2)
    assert refused == [(topic.name, left, ErrorCode.transaction_coordinator_fenced)]
    fenced = mark(full.client, (P, -1), (topic.name, [left]), commit=True, version=version, coordinator_epoch=3)
    assert fenced == [(topic.name, left, ErrorCode.invalid_producer_epoch)]


def test_a_client_that_leaves_while_its_markers_are_written_costs_no_other_its_channel(
    full: Serving, fresh: Fresh
) -> None:
    """The actor's response arrives after the request was given up, and before its task has ended."""
    topic, gateway = full.create(fresh("t")), full.gateway
    channel = gateway.forwarder.log(owner_of(gateway, topic, 0)[1])
    assert channel is not None
    marker = {"producer_id": P, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    topics = {"topics": [{"name": topic.name, "partition_indexes": [0]}]}
    frame = codec.encode_request(WRITE_TXN_MARKERS, 1, 1, "leaves", {"markers": [{**marker, **topics}]})

    async def leave(port: int) -> None:
        (connection,) = (each for each in gateway.connections.values() if each.port == port)
        assert isinstance(connection, Connection)
        before = set(channel._waiting)
        connection.data_received(framed(frame))
        await everything_has_run()
        (sent,) = set(channel._waiting) - before
        connection.close()
        channel.data_received(framed(write_marked(sent, [[ErrorCode.none]])))

    with full.connect() as client:
        client.exchange(18, 0, {})
        full.run(leave(client.port))
        assert client.is_closed()
    assert channel.usable


def test_a_marker_starts_the_partition_of_offsets(full: Serving) -> None:
    partition = next(each for each in range(3) if each not in full.controller.offsets)
    assert mark(full.client, (P, 0), (OFFSETS_TOPIC, [partition]), commit=True) == [(OFFSETS_TOPIC, partition, 0)]
    assert partition in full.controller.offsets


def test_producers_are_described(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 1)
    produce(full.client, (topic, 0, client_batch(3, producer=(Q, 2, 0))))
    write(full.client, topic, 0, (P, 0, 0))

    def described(*topics: tuple[str, int]) -> list[Any]:
        body = {"topics": [{"name": name, "partition_indexes": [partition]} for name, partition in topics]}
        response = full.exchange(DESCRIBE_PRODUCERS, 0, body)
        return [partition for each in response.topics for partition in each.partitions]

    found, missing, unknown, illegal = described((topic.name, 0), (topic.name, 1), ("nope", 0), ("no/pe", 0))
    assert [each.error_code for each in (found, missing, unknown, illegal)] == [0, 3, 3, 17]
    fields = ("producer_id", "producer_epoch", "last_sequence", "coordinator_epoch", "current_txn_start_offset")
    assert [tuple(getattr(each, name) for name in fields) for each in found.active_producers] == [
        (P, 0, 0, -1, 3),
        (Q, 2, 2, -1, -1),
    ]
    mark(full.client, (P, 1), (topic.name, [0]), commit=False, coordinator_epoch=4)
    (found,) = described((topic.name, 0))
    assert tuple(getattr(found.active_producers[0], name) for name in fields) == (P, 1, -1, 4, -1)


def test_a_batch_outside_of_the_open_transaction(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 1)
    write(full.client, topic, 0, (P, 0, 0))
    plain = client_batch(producer=(P, 0, 1))
    assert errors(produce(full.client, (topic, 0, plain))) == [ErrorCode.invalid_txn_state]
    assert errors(list_offsets(full.client, 11, topic.name, (0, LATEST))) == [ErrorCode.none]


def test_partitions_of_offsets_have_producers_too(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    partition = full.gateway.partition_of(group)
    body = {"topics": [{"name": OFFSETS_TOPIC, "partition_indexes": [partition]}]}
    assert mark(full.client, (P, 0), (OFFSETS_TOPIC, [partition]), commit=False) == [(OFFSETS_TOPIC, partition, 0)]
    (found,) = full.exchange(DESCRIBE_PRODUCERS, 0, body).topics[0].partitions
    assert [each.producer_id for each in found.active_producers] == [P]
