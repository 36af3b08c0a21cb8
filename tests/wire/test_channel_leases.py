"""Leases of a gateway: the heartbeats that it answers, its reports of them, and when it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.envelope import Kind
from muster.actors.wire.internal.leases import ChannelLeases, MemberLease, Use

GROUP = 1


class World:
    """The leases of a channel, what is sent on it, and what was answered, in order."""

    def __init__(self, members: int) -> None:
        self.events: list[str | list[int]] = []
        """The member that was answered or has to be forwarded, or the members of a report."""
        self.leases = ChannelLeases(self._sent)
        self.members = [self.leases.grant(GROUP, number) for number in range(members)]
        self.now_s = time.monotonic()
        """When all heartbeats come, however long the test takes between them."""
        self.leases.alive(int(self.now_s * 1000))
        self.done = asyncio.Event()

    def _sent(self, message: bytes) -> None:
        if message[0] == Kind.SEEN:
            self.events.append([number for number, _ in envelope.read_seen(message)])

    def heartbeat(self, member: MemberLease) -> None:
        use = member.use(self.now_s, lambda: self.heartbeat(member))
        if use is not Use.LATER:
            self.events.append(f"{member.number} {use.name}")
        answered = sum(isinstance(event, str) for event in self.events)
        if answered == len(self.members):
            self.done.set()


def run(members: int, scenario: Callable[[World], Awaitable[None]]) -> World:
    async def main() -> World:
        world = World(members)
        async with asyncio.timeout(20):
            await scenario(world)
        world.leases.end()
        return world

    return asyncio.run(main())


async def all_at_once(world: World) -> None:
    for member in world.members:
        world.heartbeat(member)
    await world.done.wait()


def test_heartbeats_of_many_members_are_reported_together_before_they_are_answered() -> None:
    world = run(5, all_at_once)
    assert world.events == [[0], "0 YES", [1, 2, 3, 4], "1 YES", "2 YES", "3 YES", "4 YES"]


def test_a_heartbeat_that_comes_again_while_it_waits_is_reported_once() -> None:
    async def scenario(world: World) -> None:
        world.heartbeat(world.members[0])
        world.heartbeat(world.members[1])
        assert world.members[1].use(world.now_s, lambda: None) is Use.LATER
        await world.done.wait()

    assert run(2, scenario).events == [[0], "0 YES", [1], "1 YES"]


def test_the_end_of_a_lease_reaches_a_heartbeat_that_waits() -> None:
    async def scenario(world: World) -> None:
        for member in world.members:
            world.heartbeat(member)
        world.leases.revoke(GROUP)
        await world.done.wait()

    world = run(2, scenario)
    assert world.events[:2] == [[0], "0 YES"]
    assert world.events[-1] == "1 NO"
    assert [1] not in world.events


def test_a_lost_channel_keeps_no_heartbeat_waiting() -> None:
    async def scenario(world: World) -> None:
        for member in world.members:
            world.heartbeat(member)
        world.leases.end()
        await world.done.wait()

    assert run(2, scenario).events == [[0], "0 YES", "1 NO"]
