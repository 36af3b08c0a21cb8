"""Workers on kafka-python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

from tests.chaos.workers.base import (
    CALL_S,
    DELIVERY_TIMEOUT_MS,
    HEARTBEAT_MS,
    REQUEST_TIMEOUT_MS,
    ROUND_S,
    SESSION_MS,
    Consuming,
    EndedEarly,
    Offsets,
    Producing,
    Worker,
)
from tests.chaos.workers.spec import Spec

_CONNECT_S = 60.0
_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


def _common(spec: Spec) -> dict[str, Any]:
    shorter = {"request_timeout_ms": REQUEST_TIMEOUT_MS, "reconnect_backoff_max_ms": 1_000}
    timeouts = {} if spec.own_timeouts else shorter
    return {"bootstrap_servers": spec.bootstrap.split(","), "client_id": spec.name, **timeouts}


def _connected(worker: Worker, make: Callable[[], Any]) -> Any:
    """Return a client, whose constructor connects. Brokers may be unavailable for longer than it waits.

    Raises EndedEarly.
    """
    while True:
        try:
            with worker.journal.call("connect", _CONNECT_S):
                return make()
        except KafkaError:
            if worker.stopping.wait(ROUND_S):
                raise EndedEarly from None


class Producer(Producing):
    def run(self) -> None:
        producer = _connected(
            self,
            lambda: kafka.KafkaProducer(
                **_common(self.spec),
                acks="all",
                enable_idempotence=self.spec.idempotent,
                linger_ms=5,
                delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
                max_block_ms=CALL_S * 1000,
            ),
        )
        while not self.stopping.is_set():
            place, records = self.next_records()
            for name, value in records:
                self._send(producer, name, place, value)
            self.stopping.wait(ROUND_S)
            self.write_acked()
        while self.in_flight:
            try:
                with self.journal.call("flush", CALL_S):
                    producer.flush(CALL_S)
            except KafkaError:
                pass  # recorded: not all in time
            self.write_acked()
        with self.journal.call("close", CALL_S):
            producer.close(CALL_S)

    def _send(self, producer: Any, name: str, place: tuple[str, int], value: bytes) -> None:
        try:
            future = producer.send(place[0], value, partition=place[1])
        except KafkaError as error:
            self.failed(name, error)
            return
        future.add_callback(lambda metadata: self.acked(name, (metadata.topic, metadata.partition), metadata.offset))
        future.add_errback(lambda error: self.failed(name, error))


class Consumer(Consuming, kafka.ConsumerRebalanceListener):
    def run(self) -> None:
        auto = self.spec.mode == "auto"
        self._consumer = _connected(
            self,
            lambda: kafka.KafkaConsumer(
                **_common(self.spec),
                group_id=self.spec.group,
                auto_offset_reset="earliest",
                enable_auto_commit=auto,
                auto_commit_interval_ms=1_000,
                **({} if self.spec.own_timeouts else {"session_timeout_ms": SESSION_MS}),
                heartbeat_interval_ms=HEARTBEAT_MS,
                partition_assignment_strategy=(_ASSIGNORS[self.spec.strategy],),
                fetch_max_wait_ms=200,
            ),
        )
        self._watch_heartbeats()
        self._consumer.subscribe(list(self.spec.topics), listener=self)
        while not self.stopping.is_set():
            try:
                found = self._consumer.poll(200)
            except KafkaError as error:
                if not error.retriable:
                    raise
                self.refused("poll", error)  # no broker is available: the application must retry
                self.stopping.wait(ROUND_S)
                continue
            offsets = self.read((r.topic, r.partition, r.offset, r.value) for some in found.values() for r in some)
            if not offsets:
                continue
            if auto:
                self.may_commit(offsets)  # the next poll commits
                self.pending = {}
            else:
                self._commit(offsets)
        with self.journal.call("close", CALL_S):
            self._consumer.close(timeout_ms=CALL_S * 1000)

    def _commit(self, offsets: Offsets) -> None:
        structs = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()
        }
        try:
            with self.committing(offsets, self._membership()[0]):
                self._consumer.commit(structs, timeout_ms=CALL_S * 1000)
        except KafkaError:
            return  # recorded; the next round tries again
        self.pending = {}

    def _watch_heartbeats(self) -> None:
        """Write a line for each heartbeat that was acknowledged; the thread that sends them is the library's own."""
        coordinator = self._consumer._coordinator
        handle = coordinator._handle_heartbeat_response

        def handled(response: Any, send_time: float) -> Any:
            if response.error_code == 0:
                self.journal.write("heartbeat")
            return handle(response, send_time)

        coordinator._handle_heartbeat_response = handled

    def _membership(self) -> tuple[int, str]:
        generation = self._consumer._coordinator._generation
        return generation.generation_id, generation.member_id

    def on_partitions_assigned(self, assigned: Any) -> None:
        gained = {(partition.topic, partition.partition) for partition in assigned}
        generation, member = self._membership()
        self.assigned(self.owned | gained, generation, member)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.revoked((partition.topic, partition.partition) for partition in revoked)
