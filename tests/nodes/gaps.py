"""How long Produce and Fetch of each partition go without a success, as clients of one gateway see it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from muster.actors.log.format.records import build_batch
from muster.actors.wire.kafka.codec import ErrorCode
from tests.cluster.consumer_groups.groups import PARTITIONS
from tests.raw_client import Connection, Lost, connect

_PRODUCE, _FETCH = (0, 9), (1, 12)
_PAUSE_S = 0.01
_Send = Callable[[Connection, str, int], Awaitable[ErrorCode]]


async def _produce(connection: Connection, topic: str, partition: int) -> ErrorCode:
    records = bytes(build_batch([(None, b"x")], round(time.time() * 1000), 0, -1))
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    response = await connection.call(
        _PRODUCE, {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": data}
    )
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def _fetch(connection: Connection, topic: str, partition: int) -> ErrorCode:
    position = {"fetch_offset": 0, "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    topics = [{"topic": topic, "partitions": [{"partition": partition, "partition_max_bytes": 1, **position}]}]
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0, "replica_id": -1}
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    response = await connection.call(_FETCH, {**limits, **session, "topics": topics})
    return ErrorCode(response.responses[0].partitions[0].error_code)


class Gaps:
    """The longest time between two successes, by kind of request, in s, and the errors in between.

    A connection that the gateway closes, as it does when a host is lost, is opened again.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.longest_s: dict[str, float] = {"produce": 0.0, "fetch": 0.0}
        self.errors: Counter[str] = Counter()
        self.is_over = False

    def run(self, gateway: str) -> None:
        """Send requests of each kind for each partition, one after the other, until ``is_over``."""
        asyncio.run(self._run(gateway))

    async def _run(self, gateway: str) -> None:
        sends: dict[str, _Send] = {"produce": _produce, "fetch": _fetch}
        each = [(what, send, partition) for what, send in sends.items() for partition in range(PARTITIONS)]
        await asyncio.gather(*(self._repeat(*one, gateway) for one in each))

    async def _repeat(self, what: str, send: _Send, partition: int, gateway: str) -> None:
        (connection,) = await connect([gateway], 1)
        last_s = time.monotonic()
        while not self.is_over:
            try:
                error = await send(connection, self._topic, partition)
            except Lost:
                self.errors[f"{what}: closed"] += 1
                (connection,) = await connect([gateway], 1)
                continue
            if error is ErrorCode.none:
                self._success(what, last_s)
                last_s = time.monotonic()
            else:
                self.errors[f"{what}: {error.name}"] += 1
            await asyncio.sleep(_PAUSE_S)
        self._success(what, last_s)
        connection.close()

    def _success(self, what: str, last_s: float) -> None:
        self.longest_s[what] = max(self.longest_s[what], time.monotonic() - last_s)


@contextmanager
def gaps(topic: str, gateway: str) -> Iterator[Gaps]:
    """Measured until the block ends, in a thread."""
    measured = Gaps(topic)
    thread = threading.Thread(target=measured.run, args=(gateway,))
    thread.start()
    try:
        yield measured
    finally:
        measured.is_over = True
        thread.join()
