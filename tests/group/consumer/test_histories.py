"""Random histories of consumer groups: members of both protocols, topics that change, restarts, a log that is slow.

After every step: no partition is held by two members, epochs only grow, the state is what its records say, and no
member is removed before its time. In the end, once members keep heartbeating, every member has its target.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.config import MusterConfig, group_config
from muster.actors.group.codec.consumer_protocol import read_assignment
from muster.actors.group.codec.primitives import Writer
from muster.actors.group.consumer.state import ConsumerGroup, ConsumerGroupState
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.events import MemberExpired
from muster.actors.group.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    SyncGroupResponse,
)
from muster.actors.group.types import GroupId, MemberId, Token
from tests.group.driver import Driver, beat, join, leave, sync

G = GroupId("g")
SESSION_MS, REVOCATION_MS = 2_000, 1_500
PROPERTIES = {
    "group.consumer.assignment.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.regex.refresh.interval.ms": "10000",
}
TOPICS = ("a", "b", "c")
TopicPartition = tuple[str, int]


def subscription(topics: tuple[str, ...], owned: set[TopicPartition]) -> bytes:
    """ConsumerProtocolSubscription v1, as a cooperative consumer writes it."""
    out = Writer().int16(1).strings(topics).int32(-1).array_length(len({topic for topic, _ in owned}))
    for topic in sorted({topic for topic, _ in owned}):
        out.string(topic).int32s(sorted(index for each, index in owned if each == topic))
    return out.bytes()


@dataclass(slots=True)
class Client:
    """A consumer as clients are: it gives up what it has to, and names what it has."""

    name: str
    classic: bool
    instance: str | None = None
    topics: tuple[str, ...] = ("a",)
    regex: str | None = None
    member_id: str = ""
    epoch: int = 0
    owned: set[TopicPartition] = field(default_factory=set)
    alive: bool = True
    heard_ms: int = 0

    def reset(self) -> None:
        self.epoch, self.owned = 0, set()
        if self.classic:
            self.member_id = ""


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.driver = Driver(group_config(MusterConfig.from_properties(PROPERTIES)))
        self.counts = {"a": 4, "b": 3}
        self._publish()
        self.clients: list[Client] = []
        self.epoch = 0
        self._made = 0
        self._events = 0
        self._steps = 0

    # What happens.

    def step(self) -> None:
        action = self.random.choices(
            [self.add, self.heartbeat, self.leave, self.crash, self.change, self.topic, self.restart, self.wait],
            [4, 60, 2, 2, 3, 2, 1, 10],
        )[0]
        action()
        self.check()

    def add(self) -> None:
        if len(self.clients) >= 6:
            return
        self._made += 1
        instance = f"i{self.random.randrange(3)}" if self.random.random() < 0.3 else None
        client = Client(f"m{self._made}", self.random.random() < 0.35, instance, self._some_topics())
        if not client.classic:
            client.member_id = client.name
            client.regex = self.random.choice([None, None, "b|c"])
        self.clients.append(client)

    def heartbeat(self) -> None:
        if alive := [client for client in self.clients if client.alive]:
            self._beat(self.random.choice(alive))

    def leave(self) -> None:
        if self.clients:
            client = self.clients.pop(self.random.randrange(len(self.clients)))
            if client.epoch and client.alive:
                self._leave(client)

    def crash(self) -> None:
        if self.clients:
            self.random.choice(self.clients).alive = False

    def change(self) -> None:
        if self.clients:
            self.random.choice(self.clients).topics = self._some_topics()

    def topic(self) -> None:
        name = self.random.choice(TOPICS)
        self.counts[name] = self.counts.get(name, 0) + 1
        self._publish()

    def restart(self) -> None:
        self.driver.restart()
        for client in self.clients:
            client.heard_ms = self.driver.now_ms

    def wait(self) -> None:
        self.driver.advance(self.random.choice([10, 100, 300, 1_200]))

    def _publish(self) -> None:
        self.driver.topics_known({name: TopicInfo(UUID(int=ord(name)), count) for name, count in self.counts.items()})

    def _some_topics(self) -> tuple[str, ...]:
        return tuple(sorted(self.random.sample(TOPICS, self.random.randrange(1, 4))))

    # What clients do.

    def _beat(self, client: Client) -> None:
        if client.classic:
            self._beat_classic(client)
        else:
            self._beat_consumer(client)

    def _beat_consumer(self, client: Client) -> None:
        joins = client.epoch == 0
        response: ConsumerGroupHeartbeatResponse = self.driver.exchange(
            ConsumerGroupHeartbeat(
                api_version=1,
                group_id=G,
                member_id=MemberId(client.member_id),
                member_epoch=client.epoch,
                instance_id=client.instance,
                rebalance_timeout_ms=REVOCATION_MS,
                topics=client.topics,
                regex=client.regex or "",
                owned=frozenset() if joins else frozenset((UUID(int=ord(t)), i) for t, i in client.owned),
            ),
            client=client.name,
        )
        if response.error_code is not ErrorCode.none:
            self._refused(client, response.error_code)
            return
        client.heard_ms = self.driver.now_ms
        client.epoch = response.member_epoch
        if response.assignment is not None:
            client.owned = {
                (topic.topic_name, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }

    def _refused(self, client: Client, error: ErrorCode) -> None:
        allowed = {
            ErrorCode.unknown_member_id,
            ErrorCode.fenced_member_epoch,
            ErrorCode.unreleased_instance_id,
            ErrorCode.fenced_instance_id,
            ErrorCode.group_id_not_found,
            ErrorCode.rebalance_in_progress,
            ErrorCode.illegal_generation,
            ErrorCode.member_id_required,
        }
        assert error in allowed, error
        if error is ErrorCode.fenced_instance_id:
            self.clients.remove(client)
        elif error is not ErrorCode.rebalance_in_progress:
            client.reset()

    def _beat_classic(self, client: Client) -> None:
        if client.epoch:
            error = self.driver.exchange(beat(client.member_id, client.epoch, instance=client.instance)).error_code
            if error is ErrorCode.none:
                client.heard_ms = self.driver.now_ms
                return
            self._refused(client, error)
            if error is not ErrorCode.rebalance_in_progress:
                return
            client.heard_ms = self.driver.now_ms
        self._join_classic(client)

    def _join_classic(self, client: Client) -> None:
        request = self._join_request(client)
        token = self.driver.send(request, client=client.name)
        joined = self._await(token)
        if joined is not None and joined.error_code is ErrorCode.member_id_required:
            client.member_id = joined.member_id
            joined = self._await(self.driver.send(self._join_request(client), client=client.name))
        if joined is None:
            client.reset()
            return
        if joined.error_code is not ErrorCode.none:
            self._refused(client, joined.error_code)
            return
        client.member_id, client.epoch = joined.member_id, joined.generation_id
        client.heard_ms = self.driver.now_ms
        shares = {member.member_id: Writer().int16(1).int32(0).int32(-1).bytes() for member in joined.members}
        syncing = sync(client.member_id, client.epoch, shares, instance=client.instance, protocol="cooperative-sticky")
        synced: SyncGroupResponse | None = self.driver.responses.get(self.driver.send(syncing, client=client.name))  # type: ignore[assignment]
        if synced is None or synced.error_code is not ErrorCode.none:
            client.reset()
            return
        client.owned = {*read_assignment(synced.assignment)}

    def _join_request(self, client: Client) -> JoinGroup:
        return join(
            client.member_id,
            instance=client.instance,
            protocols=(("cooperative-sticky", subscription(client.topics, client.owned)),),
            session_ms=SESSION_MS,
            rebalance_ms=REVOCATION_MS,
        )

    def _await(self, token: Token) -> JoinGroupResponse | None:
        """The response; None if it waits for other members: a classic group is not what this is about."""
        return self.driver.responses.get(token)  # type: ignore[return-value]

    def _leave(self, client: Client) -> None:
        if client.classic:
            self.driver.send(leave((client.member_id, client.instance)))
            return
        self.driver.exchange(
            ConsumerGroupHeartbeat(
                api_version=1,
                group_id=G,
                member_id=MemberId(client.member_id),
                member_epoch=-2 if client.instance and self.random.random() < 0.5 else -1,
                instance_id=client.instance,
            )
        )

    # What must be true.

    @property
    def group(self) -> ConsumerGroup | None:
        return self.driver.core.consumer_groups.get(G)

    def check(self) -> None:
        self._steps += 1
        if self._steps % 20 == 0:
            assert self.driver.core.hard_state == self.driver.replayed()
        self._check_expiries()
        group = self.group
        if group is None:
            self.epoch = 0
            return
        assert group.id not in self.driver.core.groups
        assert group.epoch >= self.epoch
        assert group.epoch >= group.target_epoch
        self.epoch = group.epoch
        held = [(one, each) for each, mine in group.current.items() for one in (*mine.assigned, *mine.revoking)]
        assert len({one for one, _ in held}) == len(held), "a partition is held twice"
        assert dict(held) == group.holders
        assert group.current.keys() <= group.members.keys()
        assert group.targets.keys() <= group.members.keys()
        for member_id in group.members:
            assert group.assignment_of(member_id).epoch <= group.epoch
        self._check_counts(group)

    def _check_counts(self, group: ConsumerGroup) -> None:
        """What is counted as members change is what a look at all members finds."""
        assert group.subscribed_topics() == frozenset[str]().union(*map(group.topics_of, group.members))
        assert {*group.wanted_regexes()} == {member.regex for member in group.members.values() if member.regex}
        reconciled = group.epoch == group.target_epoch and all(map(group.is_reconciled, group.members))
        assert (group.state() is ConsumerGroupState.STABLE) == (bool(group.members) and reconciled)
        classic = {member.classic is not None for member in group.members.values()}
        assert group.is_classic_without(()) == (classic == {True})

    def _check_expiries(self) -> None:
        for event in self.driver.events[self._events :]:
            if isinstance(event, MemberExpired):
                heard = [each.heard_ms for each in self.clients if each.member_id == event.member_id and each.alive]
                silent_ms = self.driver.now_ms - max(heard, default=0)
                assert silent_ms >= min(SESSION_MS, REVOCATION_MS) or not heard, event
        self._events = len(self.driver.events)

    def settle(self) -> None:
        """All that are alive keep heartbeating: the group becomes Stable, and everybody has its target."""
        self.clients = [client for client in self.clients if client.alive]
        for _ in range(40):
            for client in [*self.clients]:
                if client.classic:
                    self._leave(client)
                    self.clients.remove(client)
                else:
                    self._beat(client)
            self.driver.advance(150)
            self.check()
        group = self.group
        if group is None or not self.clients:
            return
        rivals = [client for client in self.clients if not client.epoch]
        self.clients = [client for client in self.clients if client.epoch]
        assert {client.instance for client in rivals} <= {client.instance for client in self.clients} - {None}
        assert group.state().value == "Stable"
        assert group.members.keys() == {client.member_id for client in self.clients}
        for client in self.clients:
            mine = {(chr(topic.int), index) for topic, index in group.target_of(MemberId(client.member_id))}
            assert client.owned == mine
        subscribed = {topic for client in self.clients for topic in group.topics_of(MemberId(client.member_id))}
        every = {(topic, index) for topic in subscribed for index in range(self.counts.get(topic, 0))}
        assert set().union(*(client.owned for client in self.clients)) == every


@pytest.mark.parametrize("seed", range(30))
def test_any_history(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()
    world.settle()
