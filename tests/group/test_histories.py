"""Any history, from a seed: clients that join, sync, beat, commit, leave, go silent; a log that lags; actors that die.

Replay one: pytest "tests/group/test_histories.py::test_any_history[17]"
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from kio.schema.errors import ErrorCode

from actors.group.config import GroupConfig
from actors.group.consumer_protocol import assigned_partitions
from actors.group.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetCommitResponse,
    Response,
    SyncGroupResponse,
)
from actors.group.state import GroupState
from actors.group.timers import TimerKind, TimerName
from actors.group.types import Token
from tests.group.driver import RANGE, ROUNDROBIN, Driver, assignment, beat, commit, error_of, fetch, join, leave, sync

HISTORIES = 300
STEPS = 200
PARTITIONS = 5
E = ErrorCode
LOST_MEMBERSHIP = {E.unknown_member_id, E.fenced_instance_id, E.group_max_size_reached}
STALE = {E.illegal_generation, E.rebalance_in_progress, E.not_coordinator, E.coordinator_not_available}
LOADED = {E.inconsistent_group_protocol}
"""The log keeps only the selected protocol of each member: a client without it is refused until they rejoin."""


@dataclass
class Client:
    """A consumer as the Java client behaves: it joins until it is in, syncs, beats, commits what it owns."""

    name: str
    instance: str | None
    protocols: tuple[tuple[str, bytes], ...]
    member_id: str = ""
    generation: int = -1
    joined: JoinGroupResponse | None = None
    waits_for: Token | None = None
    owned: frozenset[tuple[str, int]] = frozenset()
    silent: bool = False
    position: int = 0

    def reset(self) -> None:
        self.generation, self.joined, self.owned = -1, None, frozenset()


@dataclass
class World:
    chance: random.Random
    driver: Driver = field(init=False)
    clients: list[Client] = field(init=False)
    generation: int = 0
    acknowledged: dict[tuple[str, int], int] = field(default_factory=dict)
    commits: dict[Token, tuple[tuple[str, int], int]] = field(default_factory=dict)
    acknowledgements: int = 0
    owners: dict[int, dict[tuple[str, int], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limit = self.chance.choice([2, 100])
        delay_ms = self.chance.choice([0, 500, 3000])
        self.driver = Driver(GroupConfig(group_max_size=limit, group_initial_rebalance_delay_ms=delay_ms), auto=False)
        offers = [(RANGE,), (RANGE, ROUNDROBIN), (ROUNDROBIN, RANGE)]
        self.clients = [
            Client(f"c{n}", self.chance.choice([None, None, f"i{n}"]), self.chance.choice(offers)) for n in range(4)
        ]

    def step(self) -> None:
        driver, chance = self.driver, self.chance
        client = chance.choice(self.clients)
        match chance.randrange(20):
            case 0:
                driver.advance(chance.choice([10, 3000, 9000]))
            case 1 if chance.random() < 0.5:
                client.silent = not client.silent
            case 2 if client.generation >= 0:
                driver.send(leave((client.member_id, client.instance)))
                client.member_id = ""
                client.reset()
            case 3 if chance.random() < 0.15:
                self._crash()
            case 4 if driver.unwritten and chance.random() < 0.3:
                driver.fail(chance.choice([E.not_enough_replicas, E.request_timed_out]))
                self._crash()
            case 5 | 6 | 7:
                driver.write_all()
            case 8:
                driver.advance(chance.randrange(500))
            case _:
                for each in self.clients:
                    if not each.silent and each.waits_for is None and chance.random() < 0.7:
                        self._act(each)
        self.settle()

    def settle(self) -> None:
        for client in self.clients:
            if client.waits_for in self.driver.answers:
                token, client.waits_for = client.waits_for, None
                assert token is not None
                self._receive(client, self.driver.answers[token])
        for token in [token for token in self.commits if token in self.driver.answers]:
            partition, offset = self.commits.pop(token)
            if error_of(self.driver.answers[token]) is E.none:
                self.acknowledged[partition] = offset
                self.acknowledgements += 1

    def _act(self, client: Client) -> None:
        send, version = self.driver.send, self.chance.choice([3, 5, 8, 9])
        if client.joined is None and client.generation < 0:
            asked = join(
                client.member_id,
                instance=client.instance if version >= 5 or client.instance else None,
                protocols=client.protocols,
                version=max(version, 5) if client.instance else version,
                rebalance_ms=20_000,
            )
        elif client.joined is not None:
            asked = self._sync(client, client.joined)
        elif self.chance.random() < 0.5 or not client.owned:
            asked = beat(client.member_id, client.generation, instance=client.instance)
        else:
            partition = self.chance.choice(sorted(client.owned))
            client.position += 1
            asked = commit({partition: client.position}, member_id=client.member_id, generation=client.generation)
            token = send(asked, client=client.name)
            self.commits[token] = (partition, client.position)
            client.waits_for = token
            return
        client.waits_for = send(asked, client=client.name)

    def _sync(self, client: Client, joined: JoinGroupResponse):  # type: ignore[no-untyped-def]
        members = [member.member_id for member in joined.members]
        shares = {
            member: assignment(*[("t", p) for p in range(PARTITIONS) if p % len(members) == n])
            for n, member in enumerate(members)
        }
        given = {} if joined.skip_assignment else shares
        return sync(
            client.member_id, joined.generation_id, given, instance=client.instance, protocol=joined.protocol_name
        )

    def _receive(self, client: Client, response: Response) -> None:
        match response:
            case JoinGroupResponse(error=E.member_id_required):
                client.member_id = response.member_id
            case JoinGroupResponse(error=E.none):
                client.member_id, client.joined = response.member_id, response
                client.generation = -1
                assert response.generation_id >= 1
            case SyncGroupResponse(error=E.none):
                assert client.joined is not None
                client.generation, client.joined = client.joined.generation_id, None
                client.owned = assigned_partitions(response.assignment) or frozenset()
                self._own(client)
            case JoinGroupResponse() | SyncGroupResponse() | HeartbeatResponse() | OffsetCommitResponse():
                self._refused(client, error_of(response))

    def _refused(self, client: Client, error: ErrorCode) -> None:
        if error is E.none:
            return
        assert error in LOST_MEMBERSHIP | STALE | LOADED, error
        if error in LOST_MEMBERSHIP:
            client.member_id = ""
        client.reset()

    def _own(self, client: Client) -> None:
        """One owner per partition and generation; an instance's next process inherits."""
        owners = self.owners.setdefault(client.generation, {})
        for partition in client.owned:
            assert owners.setdefault(partition, client.name) == client.name

    def _crash(self) -> None:
        """Requests that waited get no answer from the dead actor; the gateway tells their clients so."""
        self.driver.restart()
        self.commits = {token: asked for token, asked in self.commits.items() if token in self.driver.answers}
        for client in self.clients:
            if client.waits_for is not None and client.waits_for not in self.driver.answers:
                client.waits_for = None
                self._refused(client, E.not_coordinator)
        durable = self.driver.core.hard_state.groups.get("g")  # type: ignore[call-overload]
        self.generation = durable.generation if durable else 0
        self.owners = {generation: o for generation, o in self.owners.items() if generation <= self.generation}

    def check(self) -> None:
        group = self.driver.core.groups.get("g")  # type: ignore[call-overload]
        if group is None:
            return
        assert group.generation >= self.generation, "generations only grow while the actor lives"
        self.generation = group.generation
        assert group.leader is None or group.leader in group.members
        assert set(group.static_members.values()) <= set(group.members)
        assert group.pending_syncs <= set(group.members)
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert (group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)) <= bool(group.members)
        assert len(group.members) <= max(self.driver.config.group_max_size, 4)
        for member in group.members.values():
            parked = member.parked_join or member.parked_sync is not None
            timed = self.driver.core._shard.timers.get(TimerName(TimerKind.SESSION, "g", member.id))
            assert parked or timed is not None, "whoever is not parked must be able to expire"

    def finish(self) -> None:
        """Time passes, the log writes: every request is answered, every acknowledged commit is there."""
        driver = self.driver
        driver.write_all()
        for _ in range(50):
            driver.advance(10_000)
            driver.write_all()
        assert not driver.waiting()
        assert driver.replayed() == driver.core.hard_state
        self.settle()
        driver.auto = True
        driver.restart()
        for (topic, index), offset in self.acknowledged.items():
            found = driver.ask(fetch((topic, index))).groups[0].topics[0].partitions[0].offset
            assert found == offset


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_any_history(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(STEPS):
        world.step()
        world.check()
    world.finish()


def test_histories_reach_what_matters() -> None:
    """The generator is worth its time only if groups become Stable, commit, crash and lose members."""
    generations, acknowledged, events = [], 0, set()
    for seed in range(40):
        world = World(random.Random(seed))
        for _ in range(STEPS):
            world.step()
        generations.append(world.generation)
        acknowledged += world.acknowledgements
        events |= {type(event).__name__ for event in world.driver.events}
    assert max(generations) >= 4
    assert acknowledged > 300
    assert events >= {"AssignmentStored", "MemberExpired", "MemberLeft", "OffsetsCommitted", "StaticMemberReplaced"}
