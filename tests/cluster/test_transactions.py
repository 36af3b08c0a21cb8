"""A program that reads, transforms and writes in transactions, while the actors that it needs are killed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from muster.placement.hashing import partition_for
from tests.cluster.consumer_groups.groups import PARTITIONS, create
from tests.muster_process import Muster, eventually

pytestmark = [pytest.mark.ring(name="failover"), pytest.mark.cluster]

KILLS, BETWEEN = 3, 25
"""How often an actor is killed, and how many transactions are committed before each."""
TRANSACTION_PARTITIONS = 4
TIMEOUT_S = 60.0


class Program:
    """Transaction ``n`` writes ``n`` into all partitions, and commits offset ``n + 1``; every fourth is aborted once.

    Whatever fails, it continues from the committed offset, with a new producer if need be: as Kafka prescribes.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, transactional_id: str) -> None:
        self._bootstrap, self._topic, self._group, self._id = bootstrap, topic, group, transactional_id
        self._source = TopicPartition(topic, 0)
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
        self._consumer = Consumer(settings)
        self.done = 0
        """Transactions that were committed."""
        self.failures: list[str] = []
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Program:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        self._consumer.close()

    def until(self, done: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.done >= done, TIMEOUT_S), self.failures[-5:]

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except KafkaException as error:
                self.failures.append(str(error.args[0]))

    def _work(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": self._id})
        producer.init_transactions(TIMEOUT_S)
        number, aborts = self.committed(), itertools.count()
        while not self._stop.is_set():
            try:
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.produce(self._topic, str(number).encode(), partition=partition)
                position = TopicPartition(self._topic, 0, number + 1)
                metadata = self._consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction([position], metadata, TIMEOUT_S)
                if next(aborts) % 4 == 0:
                    producer.flush(TIMEOUT_S)
                    producer.abort_transaction(TIMEOUT_S)
                    continue
                self._commit(producer)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self.failures.append(str(error.args[0]))
                producer.abort_transaction(TIMEOUT_S)
                continue
            number += 1
            with self._news:
                self.done = number
                self._news.notify_all()

    def _commit(self, producer: Producer) -> None:
        while True:
            try:
                producer.commit_transaction(TIMEOUT_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def committed(self) -> int:
        """The offset of the last transaction that was committed; waits while one is undecided."""
        (found,) = self._consumer.committed([self._source], TIMEOUT_S)
        return max(found.offset, 0)


@pytest.fixture
def program(muster: Muster, fresh: Callable[[str], str]) -> Iterator[Program]:
    topic = fresh("topic")
    create(muster, topic)
    with Program(muster.bootstrap, topic, fresh("group"), fresh("txn")) as running:
        running.until(BETWEEN)
        yield running


def victims(kind: str, program: Program) -> str:
    match kind:
        case "transactions":
            return f"transactions-{partition_for(program._id, TRANSACTION_PARTITIONS)}"
        case "offsets":
            return f"offsets-{partition_for(program._group, 50)}"
        case "log":
            return "log-0"
    return "gateway-1"


@pytest.mark.parametrize("kind", ["transactions", "offsets", "log", "gateway"])
def test_everything_is_there_once(muster: Muster, program: Program, kind: str) -> None:
    actor = victims(kind, program)
    for kill in range(KILLS):
        pid = muster.kill_actor(actor)
        program.until((kill + 2) * BETWEEN)
        muster.until_back(actor, pid)
    program.__exit__()
    total = Program(muster.bootstrap, program._topic, program._group, program._id).committed()
    assert total >= program.done
    for partition in range(PARTITIONS):
        assert read(muster, program._topic, partition) == [*range(total)]
    for partition in range(PARTITIONS):
        ends = lambda: {end(muster, program._topic, partition, level) for level in ("committed", "uncommitted")}  # noqa: B023, E731
        eventually(ends, lambda found: len(found) == 1, "no transaction is left open")


def read(muster: Muster, topic: str, partition: int) -> list[int]:
    """What a reader of committed records gets, up to the end."""
    consumer = reader(muster, "committed", **{"enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            error = message.error()
            if error is None:
                values.append(int(message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def end(muster: Muster, topic: str, partition: int, level: str) -> int:
    consumer = reader(muster, level)
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S, cached=False)[1])
    finally:
        consumer.close()


def reader(muster: Muster, level: str, **options: Any) -> Consumer:
    settings = {"bootstrap.servers": muster.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    return Consumer({**settings, "isolation.level": f"read_{level}", **options})
