"""``python -m benchmarks.commit_recording``: the cost of a commit with and without its tables.

The tables are commits, group_events and registrations. Each row sends OffsetCommit requests of a group to two
coordinators in turn, one with the tables and one without. As many requests run at once as on a busy gateway. The result
is the median of the rounds, in CPU time of the event loop's thread. The log is real but does not sync. ``observing`` is
the part of the tables alone, called directly.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import uvloop
from rich.console import Console
from rich.table import Table

from muster.actors.config import MusterConfig, group_config
from muster.actors.group.events import OffsetsCommitted
from muster.actors.group.types import GroupId, MemberId
from muster.actors.log import LogConfig, PartitionLog
from muster.actors.log.files.disk import Disk
from muster.actors.offsets.history.group_history import GroupHistory
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.process import now_ms
from muster.actors.wire.kafka import codec
from muster.placement.client import Context

ROUNDS = 20
AT_ONCE = 100
PARTITIONS = (1, 10, 50)
CONTEXT = Context(client_id="rdkafka", host="10.0.0.7")


class NoSync(Disk):
    def sync(self, fd: int) -> None:
        """Do nothing: syncs are not measured."""


class Nowhere:
    def put(self, updates: object) -> None:
        """Do nothing: there is no mapping."""


class WaitingGateway:
    """A gateway that waits for all its responses; replaces a ``Peer``."""

    def __init__(self) -> None:
        self.left = 0
        self.done = asyncio.Event()

    def reply(self, token: int, frame: bytes) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


class Coordinator:
    def __init__(self, storage: Path, *, recorded: bool) -> None:
        config = MusterConfig.from_properties({})
        topic_id = UUID(int=1)
        failed = asyncio.Event()
        log = PartitionLog.open(
            storage / "log", topic_id=topic_id, epoch=1, config=LogConfig(), now_ms=now_ms, disk=NoSync()
        )
        self.partition = OffsetsPartition(
            partition=0,
            epoch=1,
            config=group_config(config),
            partition_log=log,
            sink=Nowhere(),
            topic_id=topic_id,
            fail=failed.set,
        )
        self.history = (
            GroupHistory(self.partition, storage, config, offsets_partitions=50, now_ms=now_ms) if recorded else None
        )
        self.partition.activate()
        if self.history:
            self.history.start()

    async def round_ns(self, frames: list[bytes]) -> float:
        """Return the nanoseconds per commit."""
        gateway: Any = WaitingGateway()
        gateway.left = len(frames)
        start_ns = time.thread_time_ns()
        for token, frame in enumerate(frames):
            self.partition.request(gateway, token, CONTEXT, frame)
        await gateway.done.wait()
        return (time.thread_time_ns() - start_ns) / len(frames)

    async def stop(self) -> None:
        await self.partition.stop()
        if self.history:
            await self.history.close()


def frames(partitions: int, first_offset: int) -> list[bytes]:
    """Return requests of as many groups as commit at once."""
    found = []
    for number in range(AT_ONCE):
        items = [
            {"partition_index": index, "committed_offset": first_offset + number, "committed_metadata": ""}
            for index in range(partitions)
        ]
        body = {
            "group_id": f"group-{number % 25}",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "flights", "partitions": items}],
        }
        found.append(codec.encode_request(8, 7, number, "rdkafka", body))
    return found


def observing_ns(coordinator: Coordinator, partitions: int) -> float:
    """Return the nanoseconds per event of the tables' observers alone."""
    assert coordinator.history is not None
    observers = coordinator.partition.observers.of(OffsetsCommitted)[1:]  # the first one is the metrics'
    made = [_event(partitions, offset) for offset in range(1000)]
    start_ns = time.thread_time_ns()
    for event in made:
        for observe in observers:
            observe(event, 1)
    return (time.thread_time_ns() - start_ns) / len(made)


def _event(partitions: int, offset: int) -> OffsetsCommitted:
    return OffsetsCommitted(
        group=GroupId("group-1"),
        generation=1,
        member_id=MemberId("m"),
        client_id="rdkafka",
        host="10.0.0.7",
        partitions=tuple(("flights", index, offset, offset + 1) for index in range(partitions)),
    )


async def measure(storage: Path, partitions: int) -> tuple[str, ...]:
    without = Coordinator(storage / "without", recorded=False)
    recorded = Coordinator(storage / "with", recorded=True)
    took_ns: dict[Coordinator, list[float]] = {without: [], recorded: []}
    for number in range(ROUNDS):
        requests = frames(partitions, number * AT_ONCE)
        for coordinator in _in_turn(without, recorded, number):
            took_ns[coordinator].append(await coordinator.round_ns(requests))
    alone_ns = statistics.median(observing_ns(recorded, partitions) for _ in range(20))
    for coordinator in took_ns:
        await coordinator.stop()
    base_ns, with_ns = (statistics.median(took_ns[each]) for each in (without, recorded))
    return (
        f"{partitions}",
        f"{base_ns:,.0f}",
        f"{with_ns:,.0f}",
        f"{with_ns / base_ns:.3f}",
        f"{alone_ns:,.0f}",
        f"{alone_ns / base_ns:.2%}",
    )


def _in_turn(one: Coordinator, other: Coordinator, number: int) -> Iterator[Coordinator]:
    """Alternate the order, so that neither always has the warm cache."""
    return itertools.islice(itertools.cycle((one, other)), number % 2, number % 2 + 2)


async def main() -> None:
    table = Table("partitions", "ns per commit", "with tables", "ratio", "observing, ns", "of a commit")
    for partitions in PARTITIONS:
        with tempfile.TemporaryDirectory(prefix="muster-commits-") as storage:
            table.add_row(*await measure(Path(storage), partitions))
    Console().print(table)


if __name__ == "__main__":
    uvloop.run(main())
