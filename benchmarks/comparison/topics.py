"""Topics on a server, and the records in them."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.comparison import requests
from benchmarks.comparison.servers import Server
from muster.actors.log.format.records import build_batch
from muster.actors.runtime.process import wall_ms
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from tests.raw_client import Connection, connect

_WAIT_S = 30
_AT_ONCE = 8
_AGAIN_S = 0.05
_numbers = itertools.count(1)


def create(server: Server, partitions: int) -> str:
    """Create a topic. Return its name."""
    name = f"bench-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": server.address})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result(_WAIT_S)
    return name


def batch(size: int) -> bytes:
    """Return a record batch of one record with about so many bytes that cannot be compressed.

    Its timestamp is now: retention removes records by their timestamps, whenever they were appended.
    """
    return bytes(build_batch([(None, os.urandom(size))], wall_ms(), 0, -1))


def fill(server: Server, topic: str, partitions: Sequence[int], size: int, count: int) -> None:
    """Append so many batches to each of the partitions."""
    asyncio.run(_fill(server, topic, partitions, size, count))


async def _fill(server: Server, topic: str, partitions: Sequence[int], size: int, count: int) -> None:
    (connection,) = await connect([server.address], 1)
    for partition in partitions:
        frame = requests.produce(topic, partition, batch(size))
        for first in range(0, count, _AT_ONCE):
            calls = [_append(connection, frame, server) for _ in range(first, min(first + _AT_ONCE, count))]
            await asyncio.gather(*calls)
    connection.close()


async def _append(connection: Connection, frame: bytes, server: Server) -> None:
    """Append a batch. Kafka responds to CreateTopics before its broker leads every partition of a new topic."""
    async with asyncio.timeout(_WAIT_S):
        while True:
            response = codec.decode_response(*requests.PRODUCE, await connection.call_raw(frame))[1]
            error = response.responses[0].partition_responses[0].error_code
            if error is ErrorCode.none:
                return
            if error is not ErrorCode.not_leader_or_follower:
                raise RuntimeError(f"{server.name} answers Produce with {error.name}")
            await asyncio.sleep(_AGAIN_S)
