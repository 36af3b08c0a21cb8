"""Workers on confluent-kafka (librdkafka)."""

from __future__ import annotations

import contextlib
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.chaos.workers.base import (
    CALL_S,
    DELIVERY_TIMEOUT_MS,
    HEARTBEAT_MS,
    REQUEST_TIMEOUT_MS,
    ROUND_S,
    SESSION_MS,
    Consuming,
    Offsets,
    Place,
    Producing,
)
from tests.chaos.workers.spec import Spec

_METADATA_HEADER = b"CGMDv2:"
_REFRESH_MS = 10_000
"""When all brokers end while a consumer waits for the metadata with which it joins its group, librdkafka 2.16 replaces
its brokers, drops that request, and does not join before its next periodic refresh; by default, that is every 300 s."""


def membership(consumer: Any) -> tuple[int, str]:
    """Return generation and member id, from what librdkafka writes for producers in transactions."""
    metadata = bytes(consumer.consumer_group_metadata()).removeprefix(_METADATA_HEADER)
    names = metadata[4:].split(b"\0")
    return int.from_bytes(metadata[:4], "little", signed=True), names[1].decode()


def of_group(spec: Spec) -> dict[str, Any]:
    """Return the configuration of a group's member."""
    shared = {"group.id": spec.group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 200}
    if spec.protocol == "consumer":
        return {**common(spec), **shared, "group.protocol": "consumer"}
    return {
        **common(spec),
        **shared,
        **({} if spec.own_timeouts else {"session.timeout.ms": SESSION_MS}),
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": spec.strategy,
    }


def common(spec: Spec) -> dict[str, Any]:
    """Return the configuration of every client."""
    shorter = {
        "socket.timeout.ms": REQUEST_TIMEOUT_MS,
        "reconnect.backoff.max.ms": 1_000,
        "topic.metadata.refresh.interval.ms": _REFRESH_MS,
    }
    timeouts = {} if spec.own_timeouts else shorter
    return {"bootstrap.servers": spec.bootstrap, "client.id": spec.name, **timeouts}


class Producer(Producing):
    def run(self) -> None:
        producer = confluent_kafka.Producer(
            {
                **common(self.spec),
                "enable.idempotence": self.spec.idempotent,
                "linger.ms": 5,
                **({} if self.spec.own_timeouts else {"request.timeout.ms": REQUEST_TIMEOUT_MS}),
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            }
        )
        while not self.stopping.is_set():
            place, records = self.next_records()
            for name, value in records:
                producer.produce(place[0], value, partition=place[1], on_delivery=self._delivered(name))
            self.stopping.wait(ROUND_S)
            producer.poll(0)
            self.write_acked()
        while self.in_flight:
            with self.journal.call("flush", CALL_S):
                producer.flush(CALL_S)
            self.write_acked()

    def _delivered(self, name: str) -> Any:
        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.failed(name, error)
            else:
                self.acked(name, (message.topic(), message.partition()), message.offset())

        return on_delivery


class Consumer(Consuming):
    def run(self) -> None:
        auto = self.spec.mode == "auto"
        self._consumer = confluent_kafka.Consumer(
            {
                **of_group(self.spec),
                "enable.auto.commit": auto,
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": 1_000,
            }
        )
        self._begin()
        while not self.stopping.is_set():
            found: list[Any] = self._consumer.consume(500, 0.2)
            for message in found:
                if message.error() is not None:
                    self.refused("consume", message.error())
            offsets = self.read((m.topic(), m.partition(), m.offset(), m.value()) for m in found if m.error() is None)
            if offsets:
                (self._store if auto else self._commit)(offsets)
        with self.journal.call("close", CALL_S):
            self._consumer.close()

    def _begin(self) -> None:
        if self.spec.mode != "assign":
            topics = [self.spec.regex] if self.spec.regex else list(self.spec.topics)
            self._consumer.subscribe(topics, on_assign=self._gained, on_revoke=self._lost, on_lost=self._lost)
            return
        places = [TopicPartition(topic, number) for topic, count in self.spec.topics.items() for number in range(count)]
        while not self.stopping.is_set():
            with contextlib.suppress(confluent_kafka.KafkaException), self.journal.call("committed", CALL_S):
                committed = self._consumer.committed(places, CALL_S)
                break
        else:
            return
        start = [TopicPartition(p.topic, p.partition, max(0, p.offset)) for p in committed]
        self.owned = {(p.topic, p.partition) for p in places}
        self._consumer.assign(start)

    def _gained(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        gained = {(partition.topic, partition.partition) for partition in partitions}
        generation, member = membership(self._consumer)
        self.assigned(self.owned | gained, generation, member)

    def _lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.revoked((partition.topic, partition.partition) for partition in partitions)

    def _commit(self, offsets: Offsets) -> None:
        generation = -1 if self.spec.mode == "assign" else membership(self._consumer)[0]
        try:
            with self.committing(offsets, generation):
                done = self._consumer.commit(offsets=partitions_of(offsets), asynchronous=False)
                for partition in done:
                    if partition.error is not None:
                        raise confluent_kafka.KafkaException(partition.error)
        except confluent_kafka.KafkaException:
            return  # recorded; the next round tries again
        self.pending = {}

    def _store(self, offsets: Offsets) -> None:
        mine: Offsets = {place: offset for place, offset in offsets.items() if place in self.owned}
        self.may_commit(mine)
        with contextlib.suppress(confluent_kafka.KafkaException):  # revoked in between
            self._consumer.store_offsets(offsets=partitions_of(mine))
        self.pending = {}


def partitions_of(offsets: dict[Place, int]) -> list[TopicPartition]:
    """Return the offsets as confluent-kafka takes them."""
    return [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
