"""A shell of an offsets partition with a real log and a real socket, and what a client sends to it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from muster.actors.group.config import GroupConfig
from muster.actors.log.config import LogConfig
from muster.actors.log.files.disk import Disk
from muster.actors.log.partition import PartitionLog
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.channel import Channel, connect
from muster.actors.wire.internal.listener import Server
from muster.actors.wire.internal.verification import TransactionVerifier
from muster.actors.wire.kafka import codec

CONTEXT = envelope.write_context("127.0.0.1", "1-1", "User:ANONYMOUS")
TOPIC_ID = uuid.UUID("00000000-0000-4000-8000-000000000001")
GROUP = "group"


class Nowhere:
    def put(self, updates: object) -> None: ...


class Shell:
    """One life of the actor."""

    def __init__(
        self,
        folder: Path,
        epoch: int,
        *,
        disk: Disk | None = None,
        log: LogConfig | None = None,
        verifier: TransactionVerifier | None = None,
        **config: Any,
    ) -> None:
        self.log = PartitionLog.open(
            folder, topic_id=TOPIC_ID, epoch=epoch, config=log or LogConfig(), now_ms=now_ms, disk=disk or Disk()
        )
        self.ended = asyncio.Event()
        self.partition = OffsetsPartition(
            partition=0,
            epoch=epoch,
            config=GroupConfig(group_initial_rebalance_delay_ms=0, **config),
            partition_log=self.log,
            sink=Nowhere(),
            topic_id=TOPIC_ID,
            fail=self.ended.set,
            verifier=verifier,
        )
        self.partition.load()
        self.partition.activate()
        self.server = Server(self.partition, b"secret")

    async def serve(self, path: Path) -> Channel:
        endpoint = await self.server.start(node_id="n", host="127.0.0.1", path=path)
        return await connect(endpoint, "n", on_updates=None, on_lost=lambda: None)


async def exchange(channel: Channel, api_key: int, version: int, **body: Any) -> Any:
    frame = codec.encode_request(api_key, version, 1, "client", body)
    return codec.decode_response(api_key, version, await channel.call(CONTEXT, frame))[1]


async def commit(channel: Channel, offset: int, *, group: str = GROUP, partitions: int = 1, metadata: str = "") -> Any:
    items = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
        for index in range(partitions)
    ]
    topics = [{"name": "t", "partitions": items}]
    response = await exchange(
        channel, 8, 7, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    return {item.error_code for item in response.topics[0].partitions}


async def committed(channel: Channel, group: str = GROUP) -> dict[int, int]:
    response = await exchange(channel, 9, 5, group_id=group, topics=None)
    return {item.partition_index: item.committed_offset for topic in response.topics for item in topic.partitions}


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(main())
