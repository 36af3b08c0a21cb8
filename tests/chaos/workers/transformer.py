"""Consume, transform, produce, with exactly-once semantics (KIP-98, KIP-447), on confluent-kafka.

Each record that is read becomes one record of the output topic, in a transaction that also commits the offsets. What a
transaction will contain is in the journal before it begins, its end as soon as the library reports it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from tests.chaos.journal import SEND_OFFSETS, now_s
from tests.chaos.payload import value_of
from tests.chaos.workers.base import (
    CALL_S,
    REQUEST_TIMEOUT_MS,
    Consuming,
    Offsets,
    Place,
    flat,
)
from tests.chaos.workers.confluent import common, membership, of_group, partitions_of
from tests.chaos.workers.spec import EXIT_ABANDONED, Spec

TRANSACTION_TIMEOUT_MS = 30_000
"""A transaction that a dead process has left holds up readers for so long, unless the next one ends it."""
ABORT_EVERY = 7
"""One of so many transactions is aborted on purpose."""
MAX_ATTEMPTS = 20
ABANDONED_AFTER_S = CALL_S + 10.0


class GiveUp(Exception):
    """The transaction cannot be ended by this producer, which cannot be used any more."""


class Transformer(Consuming):
    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._outputs = [(topic, number) for topic, count in spec.outputs.items() for number in range(count)]
        self._numbers = dict.fromkeys(self._outputs, 0)
        self._transactions = 0
        self._acked: list[tuple[str, int, int, str]] = []

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._session()
            except (GiveUp, KafkaException) as error:
                self.refused("session", error)
                self.stopping.wait(1.0)

    def _session(self) -> None:
        """One consumer and one producer, until either cannot continue. Raises KafkaException or GiveUp."""
        self._producer = confluent_kafka.Producer(
            {
                **common(self.spec),
                "transactional.id": self.spec.transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "linger.ms": 5,
                # When all brokers are down, "rebootstrap" replaces them; librdkafka 2.11 and later then still sends
                # TxnOffsetCommit to the replaced one, and never gives up.
                "metadata.recovery.strategy": "none",
            }
        )
        self._until_done("init_transactions", lambda: self._producer.init_transactions(CALL_S))
        self._consumer = confluent_kafka.Consumer(
            {
                **of_group(self.spec),
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            self._consumer.subscribe(
                list(self.spec.topics), on_assign=self._gained, on_revoke=self._lost, on_lost=self._lost
            )
            while not self.stopping.is_set():
                self._round()
        finally:
            self.pending = {}
            with self.journal.call("close", CALL_S):
                self._consumer.close()

    def _round(self) -> None:
        found = [m for m in self._consumer.consume(100, 0.2) if m.error() is None]
        offsets = self.read((m.topic(), m.partition(), m.offset(), m.value()) for m in found)
        self.pending = {}
        offsets = {place: offset for place, offset in offsets.items() if place in self.owned}
        found = [m for m in found if (m.topic(), m.partition()) in offsets]
        if not found:
            self._producer.poll(0)
            return
        if not self._transform(found, offsets):
            self._rewind()

    def _transform(self, found: list[Any], offsets: Offsets) -> bool:
        """Whether the transaction is committed. GiveUp if that is unknown."""
        self._transactions += 1
        number = self._transactions
        records = [self._named(message) for message in found]
        rows = [
            (name, *place, message.topic(), message.partition(), message.offset())
            for (place, name, _), message in zip(records, found, strict=True)
        ]
        self.journal.write("transaction", id=number, records=rows, offsets=flat(offsets))
        self._acked = []
        try:
            self._producer.begin_transaction()
            for place, name, value in records:
                self._producer.produce(place[0], value, partition=place[1], on_delivery=self._delivered(name))
            positions, group = partitions_of(offsets), self._consumer.consumer_group_metadata()
            self._until_done(SEND_OFFSETS, lambda: self._producer.send_offsets_to_transaction(positions, group, CALL_S))
            if number % ABORT_EVERY == 0:
                self._producer.flush(1.0)  # a reader of records that are aborted has to find some
                self._abort(number)
                return False
            self._until_done("commit_transaction", lambda: self._producer.commit_transaction(CALL_S))
        except KafkaException as error:
            self.refused("transaction", error)
            if not error.args[0].txn_requires_abort():
                raise GiveUp(str(error)) from error
            self._abort(number)
            return False
        self.journal.write("transaction-ended", id=number, committed=True)
        if self._acked:
            self.journal.write("acked", records=self._acked)
        return True

    def _abort(self, number: int) -> None:
        """Abort the transaction. Raises KafkaException if it is not known to be aborted."""
        self._until_done("abort_transaction", lambda: self._producer.abort_transaction(CALL_S))
        self.journal.write("transaction-ended", id=number, committed=False)

    def _named(self, message: Any) -> tuple[Place, str, bytes]:
        """Place, name and value of the record that a record becomes."""
        place = self._outputs[message.partition() % len(self._outputs)]
        number = self._numbers[place]
        self._numbers[place] = number + 1
        producer = f"{self.spec.name}/{place[0]}-{place[1]}"
        self.journal.write("sent", topic=place[0], partition=place[1], producer=producer, first=number, last=number)
        return place, f"{producer}:{number}", value_of(producer, number)

    def _delivered(self, name: str) -> Any:
        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                self._acked.append((message.topic(), message.partition(), message.offset(), name))

        return on_delivery

    def _until_done(self, name: str, call: Callable[[], None]) -> None:
        """Repeat a call while the library says that it may be repeated. Raises KafkaException."""
        for attempt in range(MAX_ATTEMPTS):
            try:
                with self.journal.call(name, CALL_S) as number, self._abandoned_late(number):
                    call()
            except KafkaException as error:
                if not error.args[0].retriable() or attempt == MAX_ATTEMPTS - 1:
                    raise
                self.stopping.wait(0.2)
            else:
                return

    @contextlib.contextmanager
    def _abandoned_late(self, number: int) -> Iterator[None]:
        """End the process, as an application's watchdog would, if the call lasts long after its timeout.

        librdkafka's send_offsets_to_transaction has no timeout of its own while it waits for a coordinator (issue 5456
        of librdkafka), and waits for good if that broker was missing from a Metadata response (issue 5511).
        """
        ended = threading.Event()

        def watch() -> None:
            for _ in range(int(ABANDONED_AFTER_S)):  # seconds in which the process was paused do not count
                if ended.wait(1.0):
                    return
            self.journal.write("abandoned", id=number)
            os._exit(EXIT_ABANDONED)

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _rewind(self) -> None:
        """Go back to what is committed: what was read since is not processed. Raises KafkaException."""
        places = [TopicPartition(*place) for place in sorted(self.owned)]
        if not places:
            return
        begin_s = now_s()
        with self.journal.call("committed", CALL_S):
            committed = self._consumer.committed(places, CALL_S)
        for partition in committed:
            if partition.error is not None:
                raise KafkaException(partition.error)
        rows = [(partition.topic, partition.partition, max(-1, partition.offset)) for partition in committed]
        self.journal.write("fetched", group=self.spec.group, begin=begin_s, offsets=rows)
        for topic, number, offset in rows:
            with contextlib.suppress(KafkaException):  # revoked in between
                self._consumer.seek(TopicPartition(topic, number, max(0, offset)))

    def _gained(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        gained = {(partition.topic, partition.partition) for partition in partitions}
        self.assigned(self.owned | gained, *membership(consumer))

    def _lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.revoked((partition.topic, partition.partition) for partition in partitions)
