"""A program that works in transactions, and readers of what it has committed. Topics have PARTITIONS partitions."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.cluster.consumer_groups.groups import PARTITIONS
from tests.muster_process import Muster

TIMEOUT_S = 60.0


class Program:
    """Transaction ``n`` writes ``n`` into all partitions, and commits offset ``n + 1``; every fourth is aborted once.

    Whatever fails, it continues from the committed offset, with a new producer if need be: as Kafka prescribes.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, transactional_id: str) -> None:
        self._bootstrap, self.topic, self.group, self.id = bootstrap, topic, group, transactional_id
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
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": self.id})
        producer.init_transactions(TIMEOUT_S)
        number, aborts = self.committed(), itertools.count()
        while not self._stop.is_set():
            try:
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.produce(self.topic, str(number).encode(), partition=partition)
                position = TopicPartition(self.topic, 0, number + 1)
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
        """Return the offset of the last transaction that was committed; waits while one is undecided."""
        (found,) = self._consumer.committed([self._source], TIMEOUT_S)
        return max(found.offset, 0)


def read(muster: Muster, topic: str, partition: int, level: str = "committed") -> list[int]:
    """Return the numbers that a reader of committed records gets, up to the end; with ``uncommitted``, all of them."""
    consumer = reader(muster, level, **{"enable.partition.eof": True})
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
    return Consumer({**settings, "isolation.level": f"read_{level}", "fetch.wait.max.ms": 10, **options})
