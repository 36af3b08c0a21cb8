"""Real client bytes, and shortcuts to a log."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from muster.actors.log.config import LogConfig
from muster.actors.log.files.disk import DISK, Disk
from muster.actors.log.partition import PartitionLog
from muster.actors.wire.kafka import codec
from muster.placement.view import ClusterView, Endpoint, Topic
from tests.log import either

TOPIC_ID = UUID("00000000-0000-4000-8000-000000000001")
NOW_MS = 1_700_000_000_000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], timeout_s: float = 20) -> T:
    async def limited() -> T:
        async with asyncio.timeout(timeout_s):
            return await main

    return asyncio.run(limited())


def client_batch(
    count: int = 1,
    *,
    codec: int = NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    first_ms: int = NOW_MS,
    step_ms: int = 1,
    value: bytes = b"value",
    transactional: bool = False,
) -> bytes:
    """Return a batch as built by aiokafka's producer; ``producer`` is (id, epoch, base sequence)."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 24)
    for index in range(count):
        builder.append(index, first_ms + index * step_ms, b"key-%d" % index, value, [("header", b"content")])
    return bytes(builder.build())


def open_log(
    directory: Path, epoch: int, *, config: LogConfig | None = None, disk: Disk = DISK, topic_id: UUID = TOPIC_ID
) -> PartitionLog:
    return either.open_log(
        directory, topic_id=topic_id, epoch=epoch, config=config or LogConfig(), now_ms=lambda: NOW_MS, disk=disk
    )


def segment_files(directory: Path) -> list[Path]:
    """By leader epoch, then base offset."""
    return sorted(directory.glob("*.log"), key=lambda path: (int(path.name.split(".")[1]), path.name))


def lose_what_is_not_synced(directory: Path) -> None:
    """Lose the recovery point, indexes and snapshots, as a power failure does."""
    for pattern in ("recovery-point-*", "*.index", "*.snapshot", "*.txnindex"):
        for path in directory.glob(pattern):
            path.unlink()


def view_of(*topics: Topic, version: int = 1, logs: int = 1) -> ClusterView:
    endpoint = Endpoint(node_id="n", host="h", port=1, path="", secret=b"")
    return ClusterView(
        cluster_id="test",
        controller_epoch=1,
        version=version,
        brokers=(),
        topics={topic.name: topic for topic in topics},
        logs=dict.fromkeys(range(logs), endpoint),
        offsets={},
    )


def request(api_key: int, version: int, body: codec.Body) -> Any:
    """Return the entity decoded from a gateway's request bytes."""
    frame = codec.encode_request(api_key, version, 1, "test", body)
    return codec.decode_request(codec.decode_header(frame), frame)


def response(api_key: int, version: int, body: codec.Body) -> Any:
    """Return the entity decoded from the response's bytes."""
    return codec.decode_response(api_key, version, codec.encode_response(api_key, version, 1, body))[1]


async def everything_has_run() -> None:
    """Let tasks run until they wait for something outside the loop: many more turns than any of them needs."""
    for _ in range(1_000):
        await asyncio.sleep(0)
