"""Workers on aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import IllegalStateError, KafkaError

from tests.chaos.workers.base import (
    CALL_S,
    HEARTBEAT_MS,
    REQUEST_TIMEOUT_MS,
    ROUND_S,
    SESSION_MS,
    Consuming,
    EndedEarly,
    Offsets,
    Place,
    Producing,
    Worker,
)
from tests.chaos.workers.spec import Spec

_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
_START_S = 60.0


def _common(spec: Spec) -> dict[str, Any]:
    return {
        "bootstrap_servers": spec.bootstrap,
        "client_id": spec.name,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
    }


class Producer(Producing):
    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        producer = await _started(
            self,
            lambda: aiokafka.AIOKafkaProducer(
                **_common(self.spec), acks="all", enable_idempotence=self.spec.idempotent, linger_ms=5
            ),
        )
        while not self.stopping.is_set():
            place, records = self.next_records()
            for name, value in records:
                await self._send(producer, name, place, value)
            await asyncio.sleep(ROUND_S)
            self.write_acked()
        while self.in_flight:
            with suppress(KafkaError, TimeoutError), self.journal.call("flush", CALL_S):  # recorded: not all in time
                await _within(producer.flush())
            self.write_acked()
        await _closed(self, producer)

    async def _send(self, producer: Any, name: str, place: Place, value: bytes) -> None:
        try:
            sending = await producer.send(place[0], value, partition=place[1])
        except KafkaError as error:
            self.failed(name, error)
            return
        sending.add_done_callback(lambda done: self._delivered(name, place, done))

    def _delivered(self, name: str, place: Place, done: Any) -> None:
        if done.cancelled():
            self.failed(name, "cancelled")
        elif done.exception() is not None:
            self.failed(name, repr(done.exception()))
        else:
            self.acked(name, place, done.result().offset)


class Consumer(Consuming, aiokafka.ConsumerRebalanceListener):
    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        auto = self.spec.mode == "auto"
        await _started(self, self._made)
        while not self.stopping.is_set():
            found = await self._consumer.getmany(timeout_ms=200)
            offsets = self.read((r.topic, r.partition, r.offset, r.value) for some in found.values() for r in some)
            if not offsets:
                continue
            if auto:
                self.may_commit(offsets)
                self.pending = {}
            else:
                await self._commit(offsets)
        await _closed(self, self._consumer)

    def _made(self) -> Any:
        self._consumer = consumer = aiokafka.AIOKafkaConsumer(  # its callbacks may run before it has started
            **_common(self.spec),
            group_id=self.spec.group,
            auto_offset_reset="earliest",
            enable_auto_commit=self.spec.mode == "auto",
            auto_commit_interval_ms=1_000,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=(_ASSIGNORS[self.spec.strategy],),
            fetch_max_wait_ms=200,
        )
        consumer.subscribe(list(self.spec.topics), listener=self)
        return consumer

    async def _commit(self, offsets: Offsets) -> None:
        structs = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        try:
            with self.committing(offsets, None):  # it may rejoin during the commit
                await _within(self._consumer.commit(structs))
        except (KafkaError, IllegalStateError, TimeoutError):
            return  # recorded; the next round tries again
        for place, offset in offsets.items():  # a rebalance may have started in between
            if self.pending.get(place) == offset:
                del self.pending[place]

    def on_partitions_assigned(self, assigned: Any) -> None:
        coordinator = self._consumer._coordinator
        places = [(partition.topic, partition.partition) for partition in assigned]
        self.assigned(places, coordinator.generation, coordinator.member_id)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.revoked((partition.topic, partition.partition) for partition in revoked)


async def _within(call: Any) -> None:
    """Await the call, limited in time: the library itself would continue forever."""
    async with asyncio.timeout(CALL_S):
        await call


async def _closed(worker: Worker, client: Any) -> None:
    """Close the client. It waits for responses of brokers that may have ended, and is then abandoned, as at an exit."""
    with suppress(TimeoutError), worker.journal.call("close", CALL_S):
        await _within(client.stop())


async def _started(worker: Worker, make: Callable[[], Any]) -> Any:
    """Return a connected client.

    Raises EndedEarly.
    """
    while True:
        client = make()
        try:
            with worker.journal.call("connect", _START_S):
                async with asyncio.timeout(_START_S):
                    await client.start()
            return client
        except (KafkaError, TimeoutError):
            with suppress(TimeoutError):
                await _within(client.stop())
            if worker.stopping.is_set():
                raise EndedEarly from None
            await asyncio.sleep(1)
