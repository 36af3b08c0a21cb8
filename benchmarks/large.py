"""One group of many members."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Sequence
from typing import Any

from benchmarks.cluster import Cluster, pss_bytes
from benchmarks.many import DESCRIBE_GROUPS, DESCRIBE_LIMIT_S, FORMING_S, Scale, describe_request, warm_up
from benchmarks.members import Heartbeats, Member, assignment
from benchmarks.report import Figures, percentile
from muster.actors.wire.kafka import codec
from tests.raw_client import Connection, Errors, connect

GROUP, TOPIC = "large", "orders"
_PROBES = 5


class LargeGroup:
    """The members, each on its own connection, and their reaction when one of them has to rejoin."""

    def __init__(self, connections: Sequence[Connection], errors: Errors) -> None:
        self.members = [Member(connection, GROUP, TOPIC, errors) for connection in connections]
        self.last_join_sent_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()

    async def take_part(self, member: Member) -> None:
        """Join and sync; a leader assigns one partition to each member."""
        self.last_join_sent_s = time.perf_counter()
        response = await member.join()
        given = [
            (joined.member_id, assignment(TOPIC, [number % len(self.members)]))
            for number, joined in enumerate(response.members)
        ]
        await member.sync(given if response.leader == member.id else [])

    def rejoin(self, member: Member) -> None:
        """React to REBALANCE_IN_PROGRESS in a heartbeat."""
        task = asyncio.get_running_loop().create_task(self._rejoin(member))
        self._tasks.add(task)

    async def _rejoin(self, member: Member) -> None:
        await self.take_part(member)
        if self.is_stable:
            self._settled.set()

    @property
    def is_stable(self) -> bool:
        generations = {member.generation for member in self.members}
        return len(generations) == 1 and all(member.is_stable for member in self.members)

    async def rebalanced(self, newcomer: Member) -> None:
        """Let a member join; wait until all members are stable in the next generation."""
        self.members.append(newcomer)
        self._settled.clear()
        self.rejoin(newcomer)
        async with asyncio.timeout(FORMING_S):
            await self._settled.wait()
        await asyncio.gather(*self._tasks)
        self._tasks.clear()


async def large_group(cluster: Cluster, scale: Scale, figures: Figures) -> None:
    """Measure how the group forms, stays stable, is described, and rebalances when one more member joins."""
    part = f"1 group of {scale.members:,} members"
    connections = await connect(cluster.bootstrap, scale.members + 1)
    await warm_up(connections, scale.partitions)
    offsets = cluster.actors("offsets")
    before_bytes = pss_bytes(offsets)
    errors = Errors()
    group = LargeGroup(connections[:-1], errors)

    began_s = time.perf_counter()
    async with asyncio.timeout(FORMING_S):
        await asyncio.gather(*(group.take_part(member) for member in group.members))
    took_s = time.perf_counter() - began_s
    figures.add(part, "first generation Stable, initial rebalance delay of 3 s included", took_s, "s")
    if not group.is_stable:
        raise RuntimeError("not all members are in one generation")

    heartbeats = Heartbeats(group.members, errors, on_rebalance=group.rejoin)
    await asyncio.sleep(scale.beat_s / 2)
    figures.add(part, "heartbeat, 99th percentile", percentile(heartbeats.latencies_s, 99) * 1e3, "ms")
    (admin,) = await connect(cluster.bootstrap, 1)
    await _describe(admin, group, part, figures)

    heartbeats.latencies_s = array("d")
    newcomer = Member(connections[-1], GROUP, TOPIC, errors)
    began_s = time.perf_counter()
    await group.rebalanced(newcomer)
    done_s = time.perf_counter()
    figures.add(part, "rebalance: a member joins, all rejoin and sync (heartbeats every 3 s)", done_s - began_s, "s")
    figures.add(
        part, "rebalance: from the last JoinGroup to the last SyncGroup answered", done_s - group.last_join_sent_s, "s"
    )
    slowest_ms = percentile(heartbeats.latencies_s, 99) * 1e3
    figures.add(part, "heartbeat during the rebalance, 99th percentile", slowest_ms, "ms")
    await asyncio.sleep(scale.beat_s / 4)
    await heartbeats.stop()
    if not group.is_stable:
        raise RuntimeError("the group is not stable after its rebalance")
    await _describe(admin, group, None, figures)
    figures.add(part, "errors, members lost", sum(errors.values()), "", 0)
    per_member = (pss_bytes(offsets) - before_bytes) / len(group.members) / 1024
    figures.add(part, "memory per member, offsets actors (PSS)", per_member, "KiB")
    if errors:
        raise RuntimeError(f"errors: {dict(errors)}")
    for connection in (*connections, admin):
        connection.close()


async def _describe(connection: Connection, group: LargeGroup, part: str | None, figures: Figures) -> None:
    frame = describe_request([GROUP])
    took_s = []
    for _ in range(_PROBES):
        began_s = time.perf_counter()
        response: Any = await connection.call_raw(frame)
        took_s.append(time.perf_counter() - began_s)
    (found,) = codec.decode_response(*DESCRIBE_GROUPS, response)[1].groups
    held = {member.member_id: member.member_assignment for member in found.members}
    if found.group_state != "Stable" or held != {member.id: member.assigned for member in group.members}:
        raise RuntimeError(f"{GROUP} is {found.group_state} with {len(held)} members and not what they hold")
    if part is not None:
        figures.add(part, "DescribeGroups", sorted(took_s)[len(took_s) // 2], "s", DESCRIBE_LIMIT_S)
