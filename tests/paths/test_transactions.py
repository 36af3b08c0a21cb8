"""Transactions: what committed readers get, and a program that reads, transforms and writes."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.consumer_groups.groups import PARTITIONS, create
from tests.cluster.consumer_groups.transactional import TIMEOUT_S, Program, read
from tests.conformance.topics import committed
from tests.muster_process import Muster
from tests.paths.names import TRANSACTIONS_COORDINATOR

BETWEEN = 12
"""Transactions before the kill, and after it."""


def test_readers_get_exactly_what_was_committed(muster: Muster, fresh: Callable[[str], str]) -> None:
    """Records and offsets alike."""
    topic, group = fresh("t"), fresh("g")
    create(muster, topic)
    metadata = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group}).consumer_group_metadata()
    producer = Producer({"bootstrap.servers": muster.bootstrap, "transactional.id": fresh("txn")})
    producer.init_transactions(TIMEOUT_S)
    for number, end in enumerate([producer.commit_transaction, producer.abort_transaction] * 2):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=partition)
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, number + 1)], metadata, TIMEOUT_S)
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)
    for partition in range(PARTITIONS):
        assert read(muster, topic, partition) == [0, 2]
        assert read(muster, topic, partition, "uncommitted") == [0, 1, 2, 3]
    assert committed(muster.bootstrap, group) == {(topic, 0): 3}


def test_a_program_outlives_its_transaction_coordinator(muster: Muster, fresh: Callable[[str], str]) -> None:
    """Each of its transactions is there once, with its offset, and none that it has aborted."""
    topic, group, transactional_id = fresh("t"), fresh("g"), fresh("txn")
    create(muster, topic)
    with Program(muster.bootstrap, topic, group, transactional_id) as program:
        program.until(BETWEEN)
        pid = muster.kill_actor(TRANSACTIONS_COORDINATOR)
        program.until(2 * BETWEEN)
        muster.until_back(TRANSACTIONS_COORDINATOR, pid)
    total = Program(muster.bootstrap, topic, group, transactional_id).committed()
    assert total >= program.done
    for partition in range(PARTITIONS):
        assert read(muster, topic, partition) == [*range(total)]
