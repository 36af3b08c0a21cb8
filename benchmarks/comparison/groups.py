"""Groups on a server, formed before they are measured."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.comparison.servers import PARTITIONS, Server
from benchmarks.many import warm_up
from benchmarks.members import Member, RebalanceInProgress, assignment
from tests.raw_client import Connection, Errors, connect

SESSION_TIMEOUT_MS = 1_800_000
"""Members stay while the other server is measured."""
_CONNECTIONS = 2_000
"""Kafka serves one connection's JoinGroups one after the other, each for as long as the initial rebalance delay."""
_FORMING_S = 180
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Stable:
    """A member of a Stable group."""

    group: str
    generation: int
    member_id: str


def alone(server: Server, count: int, topic: str = "orders") -> list[Stable]:
    """Form so many new groups of one member each."""
    return asyncio.run(_alone(server, count, topic))


def large(server: Server, size: int, count: int = 1, topic: str = "orders") -> list[list[Stable]]:
    """Form so many new groups of ``size`` members each; the leader of each group comes first."""
    return asyncio.run(_large(server, size, count, topic))


async def _large(server: Server, size: int, count: int, topic: str) -> list[list[Stable]]:
    run = next(_numbers)
    connections = await connect([server.address], size * count)
    await warm_up(connections[:PARTITIONS], PARTITIONS)
    formed = []
    for number in range(count):
        own = connections[number * size : (number + 1) * size]
        formed.append(Forming([_member(each, f"group-{run}-{number}", topic) for each in own], topic))
    async with asyncio.timeout(_FORMING_S):
        found = await asyncio.gather(*(group.until_stable() for group in formed))
    _close(connections)
    return found


class Forming:
    """A group whose members join until all of them are in one generation."""

    def __init__(self, members: Sequence[Member], topic: str) -> None:
        self._members = members
        self._topic = topic
        self._leader = ""

    async def until_stable(self) -> list[Stable]:
        while len({member.generation for member in self._members}) > 1 or not self._leader:
            await asyncio.gather(*(self._join(member) for member in self._members))
        ordered = sorted(self._members, key=lambda member: member.id != self._leader)
        return [Stable(member.group, member.generation, member.id) for member in ordered]

    async def _join(self, member: Member) -> None:
        joined = await member.join()
        self._leader = joined.leader
        given = [(each.member_id, assignment(self._topic, [0])) for each in joined.members]
        try:
            await member.sync(given if joined.leader == member.id else [])
        except RebalanceInProgress:
            member.generation = -1


async def _alone(server: Server, count: int, topic: str) -> list[Stable]:
    run = next(_numbers)
    connections = await connect([server.address], min(count, _CONNECTIONS))
    await warm_up(connections, PARTITIONS)
    members = [
        _member(connections[number % len(connections)], f"group-{run}-{number}", topic) for number in range(count)
    ]
    async with asyncio.timeout(_FORMING_S):
        await asyncio.gather(*(member.alone() for member in members))
    _close(connections)
    return [Stable(member.group, member.generation, member.id) for member in members]


def _member(connection: Connection, group: str, topic: str) -> Member:
    return Member(connection, group, topic, Errors(), session_timeout_ms=SESSION_TIMEOUT_MS)


def _close(connections: Sequence[Connection]) -> None:
    for connection in connections:
        connection.close()
