"""One activation of ``log-0`` or ``offsets-0`` in its own process, so that a test can have two and pause one.

``python -m tests.nodes.copy KIND STORAGE ZOOKEEPER`` writes its internal endpoint as a line of JSON and serves. The
parts are those of the Ray actors. Only Ray is missing, which would end a paused process or start a new one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from muster.actors.group.config import GroupConfig
from muster.actors.log.config import LogConfig
from muster.actors.log.listener import LogServer
from muster.actors.log.open_logs import SharedDirectory
from muster.actors.log.partition import PartitionLog
from muster.actors.log.partitions import Partitions
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal.listener import Handler, Server
from muster.placement.epochs import next_epoch, take_actor_epoch, when_superseded
from muster.placement.mapping.registration import RegistrationUpdate
from muster.placement.topics import TopicRegistry
from muster.placement.view import OFFSETS_TOPIC, ClusterView
from muster.placement.zookeeper.client import ZooKeeperClient, connect

SECRET = b"the secret of the two copies"
CONFIG = LogConfig(segment_bytes=20_000)


class _Nowhere:
    def put(self, updates: tuple[RegistrationUpdate, ...]) -> None:
        """Ignore them: the mapping in ZooKeeper is not tested here."""


def offsets(storage: Path, zk: ZooKeeperClient) -> Handler:
    """Like ``OffsetsActor``: one leader epoch; the process ends when another activation owns the log."""
    topic = TopicRegistry(zk).load()[OFFSETS_TOPIC]
    epoch = next_epoch(zk, OFFSETS_TOPIC, 0, "offsets-0")
    folder = storage / "logs" / f"{OFFSETS_TOPIC}-0"
    log = PartitionLog.open(folder, topic_id=topic.topic_id, epoch=epoch, config=CONFIG, now_ms=now_ms)
    partition = OffsetsPartition(
        partition=0,
        epoch=epoch,
        config=GroupConfig(group_initial_rebalance_delay_ms=0),
        partition_log=log,
        sink=_Nowhere(),
        topic_id=topic.topic_id,
        fail=lambda: os._exit(1),
    )
    partition.load()
    partition.activate()
    return partition


def log(storage: Path, zk: ZooKeeperClient) -> Handler:
    """Like ``LogActor``: takes leader epochs on demand, as long as this is the newest activation."""
    mine = take_actor_epoch(zk, "log-0")
    view = ClusterView(
        cluster_id="two-copies",
        controller_epoch=1,
        version=1,
        brokers=(),
        topics=TopicRegistry(zk).load(),
        logs={0: None},
        offsets={},
    )

    async def take(topic: str, partition: int) -> int:
        return await asyncio.to_thread(next_epoch, zk, topic, partition, "log-0", holder=mine)

    partitions = Partitions(
        storage=SharedDirectory(storage / "logs"),
        config=CONFIG,
        topics=lambda: view,
        index=0,
        next_epoch=take,
        now_ms=now_ms,
    )
    when_superseded(zk, mine, lambda: os._exit(1))
    return LogServer(partitions)


async def main() -> None:
    kind, storage, hosts = sys.argv[1:]
    zk = await asyncio.to_thread(connect, hosts, timeout_s=30)
    handler = {"offsets": offsets, "log": log}[kind](Path(storage), zk)
    server = Server(handler, SECRET)
    path = Path(storage) / f"{os.getpid()}.sock"
    endpoint = await server.start(node_id="here", host="127.0.0.1", path=path)
    print(json.dumps({name: value for name, value in asdict(endpoint).items() if name != "secret"}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
