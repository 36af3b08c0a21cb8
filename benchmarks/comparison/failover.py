"""Time that groups are without their coordinator after it was killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from benchmarks.comparison import groups, requests, topics
from benchmarks.comparison.rows import Goal, Measure, Measured, Row
from benchmarks.comparison.servers import PARTITIONS, Server
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from tests.raw_client import Connection, Lost, connect

_BETWEEN_S = 0.01
_REQUEST_S = 1.0
_AT_MOST_S = 120.0


@contextmanager
def _killing(muster: Server, kafka: Server) -> Iterator[Measure]:
    prepared = {}
    for server in (muster, kafka):
        topic = topics.create(server, 1)
        (stable,) = groups.alone(server, 1, topic)
        prepared[server.name] = stable, topic

    def measure(server: Server, seconds: float) -> Measured:
        stable, topic = prepared[server.name]
        killed_s = server.kill_coordinator(partition_for(stable.group, PARTITIONS))
        heartbeat_s, commit_s = asyncio.run(_until_good(server, stable, topic))
        return {"heartbeat_ms": (heartbeat_s - killed_s) * 1e3, "commit_ms": (commit_s - killed_s) * 1e3}

    yield measure


async def _until_good(server: Server, stable: groups.Stable, topic: str) -> tuple[float, float]:
    """Return when a coordinator first answered a heartbeat, and a commit.

    A gateway answers heartbeats while a coordinator is down; only a coordinator knows that a generation is wrong.
    """
    wrong = requests.heartbeat(stable.group, stable.generation + 1, stable.member_id)
    commit = requests.commit(stable.group, stable.generation, stable.member_id, topic, [0], 7)
    async with asyncio.timeout(_AT_MOST_S):
        return (
            await _first(server, wrong, requests.ERROR_AT, ErrorCode.illegal_generation),
            await _first(server, commit, requests.commit_error_at(topic), ErrorCode.none),
        )


async def _first(server: Server, frame: bytes, error_at: int, wanted: ErrorCode) -> float:
    connection: Connection | None = None
    while True:
        with suppress(OSError, Lost, TimeoutError):
            if connection is None:
                (connection,) = await connect([server.address], 1)
            async with asyncio.timeout(_REQUEST_S):
                response = await connection.call_raw(frame)
            if int.from_bytes(response[error_at : error_at + 2], "big", signed=True) == wanted:
                connection.close()
                return time.monotonic()
            await asyncio.sleep(_BETWEEN_S)
            continue
        if connection is not None:
            connection.close()
        connection = None
        await asyncio.sleep(_BETWEEN_S)


ROW = Row(
    "killed-coordinator",
    "A coordinator gets SIGKILL, and starts again at once",
    _killing,
    (Goal("heartbeat_ms", at_most=0.1), Goal("commit_ms", at_most=0.1)),
    steady="",
)
