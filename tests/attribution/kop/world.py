"""Brokers A, B and C, clients and a coordinator in virtual time; all rules see the same events and label each fetch.

The coordinator is the real core (``muster.actors.group.Coordinator``) for every rule: members join, heartbeat, leave
and expire in it. The tests that depend on differences of KoP's own coordinator describe them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.coordinator import Coordinator
from muster.actors.group.messages import JoinGroupResponse, Request
from muster.actors.group.types import Token
from muster.placement.client import ANONYMOUS, Context
from muster.placement.mapping.nodes import canonical_host
from muster.placement.mapping.registration import Registration, RegistrationUpdate, Withdrawal
from tests.attribution.kop.kop_rule import java_address
from tests.group.driver import Driver, assignment, beat, commit, fetch, join, leave, sync

TOPIC = "t"
BEAT_MS = 3_000
SESSION_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A client's connection to one broker."""

    id: int
    broker: str
    client_id: str | None
    peer: str
    """The client's address as the socket gives it."""
    principal: str
    name: str | None
    """The host's name, if the broker has resolved it."""

    @property
    def host(self) -> str:
        """The address in Muster's gateway."""
        return canonical_host(self.peer)

    @property
    def address(self) -> str:
        """The address as Java prints it."""
        return java_address(self.peer, 40_000 + self.id, name=self.name)


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a group, and its client."""

    group: str
    connection: Connection
    """The connection to the coordinator."""
    id: str = ""
    generation: int = -1
    partitions: tuple[int, ...] = ()
    paused: bool = False
    """Sends nothing, as during a long garbage collection."""

    @property
    def client_id(self) -> str | None:
        return self.connection.client_id


class Rule:
    """A way to label fetches. Events are those that brokers see; a rule handles the ones that it needs."""

    name: str

    def found_coordinator(self, connection: Connection, client_id: str | None, groups: tuple[str, ...]) -> bool:
        """Take a FindCoordinator; return False if it is never answered."""
        return True

    def joined(self, member: Member) -> None:
        """Take a JoinGroup of the member."""

    def requested(self, connection: Connection, client_id: str | None, group: str) -> None:
        """Any other request of a client of the group arrived: SyncGroup, Heartbeat, OffsetCommit, OffsetFetch."""

    def removed(self, broker: str, member: Member, *, stopping: bool) -> None:
        """Take the removal of the member by the coordinator on that broker: it left, or its session ended."""

    def stated(self, updates: tuple[RegistrationUpdate, ...], now_ms: int) -> None:
        """Take an update of Muster's coordinator."""

    def coordinated(self, core: Coordinator, epoch: int, now_ms: int) -> None:
        """Take an Active coordinator: every gateway gets its registrations."""

    def checked(self, members: Iterable[Member]) -> None:
        """Check periodically."""

    def closed(self, connection: Connection) -> None:
        """Take the end of the connection: the broker closed it, or noticed that it is closed."""

    def started(self, broker: str) -> None:
        """Start the broker as a new process without memory."""

    def passed(self, now_ms: int) -> None:
        """Time has passed."""

    def fetching(
        self, connection: Connection, client_id: str | None, offsets: Mapping[tuple[str, int], int], now_ms: int
    ) -> None:
        """Take a Fetch with exactly these partitions and fetch offsets."""

    def label(
        self, connection: Connection, client_id: str | None, topic: str, partition: int, offset: int, now_ms: int
    ) -> Callable[[], str]:
        """Count a fetch of that partition. The label can be read at any later time; KoP's never changes."""
        raise NotImplementedError


class Fetched:
    """One fetch, and its current label by each rule."""

    def __init__(self, labels: Mapping[str, Callable[[], str]]) -> None:
        self._labels = labels

    def __getitem__(self, rule: str) -> str:
        return self._labels[rule]()

    @property
    def kop(self) -> str:
        return self["kop"]

    @property
    def ours(self) -> str:
        """The group, or the reason in brackets."""
        return self["ours"]

    def __repr__(self) -> str:
        return repr({rule: label() for rule, label in self._labels.items()})


class _Driver(Driver):
    """A driver that knows principals."""

    principal = ANONYMOUS

    def send(self, request: Request, *, client: str | None = "c", host: str = "", **where: str) -> Token:
        token = Token(next(self._tokens))
        self.requests[token] = request
        context = Context(client_id=client, host=host, principal=self.principal)
        self._take(self.core.step(request, context, token, self.now_ms))
        return token


@dataclass
class World:
    rules: tuple[Rule, ...]
    driver: _Driver = field(default_factory=_Driver)
    members: list[Member] = field(default_factory=list)
    """Members that run, whatever the coordinator believes."""
    open: list[Connection] = field(default_factory=list)
    coordinator_on: str = "B"

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._delivered = 0
        self._known: dict[str, Member] = {}
        self._offsets: dict[tuple[int, str, int], int] = {}
        for rule in self.rules:
            rule.coordinated(self.driver.core, self.driver.epoch, self.driver.now_ms)

    def registrations(self) -> tuple[Registration, ...]:
        """Return the registrations of the Active coordinator."""
        return self.driver.core.registrations()

    # Connections and look-ups.

    def connect(
        self,
        broker: str,
        client_id: str | None = "app",
        *,
        host: str = "10.0.0.1",
        principal: str = ANONYMOUS,
        name: str | None = None,
    ) -> Connection:
        connection = Connection(
            id=next(self._numbers), broker=broker, client_id=client_id, peer=host, principal=principal, name=name
        )
        self.open.append(connection)
        return connection

    def close(self, *connections: Connection) -> None:
        for connection in connections:
            self.open.remove(connection)
            for rule in self.rules:
                rule.closed(connection)

    def find(self, connection: Connection, *groups: str, client_id: str | None = "-") -> dict[str, bool]:
        """FindCoordinator for these groups; returns the rules that answer it."""
        sender = connection.client_id if client_id == "-" else client_id
        return {rule.name: rule.found_coordinator(connection, sender, groups) for rule in self.rules}

    # Membership.

    def join(self, connection: Connection, group: str, *partitions: int) -> Member:
        """Join the group with a new member, which gets these partitions; the others keep theirs."""
        member = Member(group=group, connection=connection, partitions=partitions)
        self.members.append(member)
        self.rebalance(group)
        return member

    def assign(self, group: str, shares: Mapping[str, tuple[int, ...]]) -> None:
        """Rebalance, after which the members (by id) have these partitions."""
        for member in self._of(group):
            member.partitions = shares[member.id]
        self.rebalance(group)

    def rebalance(self, group: str, *, sync: bool = True) -> None:
        """All members of the group join; with ``sync`` the leader assigns their partitions."""
        members = self._of(group)
        for member in members:
            if not member.id:
                given: JoinGroupResponse = self._exchange(member, join("", group=group, session_ms=SESSION_MS))
                assert given.error_code is ErrorCode.member_id_required
                member.id = given.member_id
                self._known[member.id] = member
        tokens = [self._send(member, join(member.id, group=group, session_ms=SESSION_MS)) for member in members]
        joined = self.driver.responses_to(tokens)
        self._deliver()
        for member, response in zip(members, joined, strict=True):
            assert response.error_code is ErrorCode.none
            member.generation = response.generation_id
            for rule in self.rules:
                rule.joined(member)
        if sync:
            self._sync(members, leader=joined[0].leader)

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        assert self._exchange(member, leave(member.id, group=member.group)).error_code is ErrorCode.none

    def vanish(self, member: Member) -> None:
        """End the member's process without a request."""
        self.members.remove(member)

    def commit(self, connection: Connection, group: str, partition: int, offset: int) -> None:
        """OffsetCommit of a client that is no member."""
        self._simple(connection, group, commit({(TOPIC, partition): offset}, group=group))

    def offset_fetch(self, connection: Connection, group: str, *partitions: int) -> None:
        """OffsetFetch of a client of the group, member or not: it reads its start offsets."""
        self._simple(connection, group, fetch(*((TOPIC, partition) for partition in partitions), group=group))

    def beat(self) -> None:
        """Every member that can sends a heartbeat."""
        for member in self.members:
            if member.id and not member.paused:
                self._exchange(member, beat(member.id, member.generation, group=member.group))

    def wait(self, ms: int) -> None:
        """Time passes; members continue to heartbeat."""
        end_ms = self.driver.now_ms + ms
        while self.driver.now_ms < end_ms:
            self.driver.advance(min(BEAT_MS, end_ms - self.driver.now_ms))
            self._deliver()
            self.beat()
            for rule in self.rules:
                rule.passed(self.driver.now_ms)

    # Brokers and coordinators.

    def restart(self, broker: str) -> None:
        """Restart the broker: it closes its connections and ends first."""
        self.close(*[connection for connection in self.open if connection.broker == broker])
        self.kill(broker)

    def kill(self, broker: str) -> None:
        """Kill the broker, so that nothing is closed in order, and restart it."""
        self.open = [connection for connection in self.open if connection.broker != broker]
        for rule in self.rules:
            rule.started(broker)
        for rule in self.rules:
            rule.coordinated(self.driver.core, self.driver.epoch, self.driver.now_ms)

    def move_coordinator(self, broker: str) -> Coordinator:
        """Another broker loads the groups from the log; returns the previous coordinator, which is not notified."""
        before = self.driver.core
        self.driver.restart()
        self.coordinator_on = broker
        self._deliver()
        for rule in self.rules:
            rule.coordinated(self.driver.core, self.driver.epoch, self.driver.now_ms)
        return before

    def late_expiry(self, before: Coordinator, broker: str, *, stopping: bool = False) -> int:
        """End the sessions of the previous coordinator's members there; return their number."""
        at_ms, withdrawn = self.driver.now_ms + 10 * SESSION_MS, 0
        while (due_ms := before.next_deadline_ms()) is not None and due_ms <= at_ms:
            outcome = before.tick(at_ms)
            self._say(outcome.updates, broker, stopping=stopping)
            withdrawn += sum(isinstance(update, Withdrawal) for update in outcome.updates)
        return withdrawn

    def check(self) -> None:
        """Check periodically, where a rule does so."""
        held = {(r.group, r.member_id) for r in self.driver.core.registrations()}
        members = [member for member in self._known.values() if (member.group, member.id) in held]
        for rule in self.rules:
            rule.checked(members)

    # Fetches.

    def fetch(
        self,
        connection: Connection,
        partition: int = 0,
        *,
        topic: str = TOPIC,
        client_id: str | None = "-",
        offset: int | None = None,
        beside: tuple[int, ...] = (),
    ) -> Fetched:
        """Fetch ten messages of that partition, by default from where the connection left off.

        The Fetch also names the partitions ``beside``, and gets nothing of them.
        """
        sender = connection.client_id if client_id == "-" else client_id
        place = (connection.id, topic, partition)
        start = self._offsets.get(place, 0) if offset is None else offset
        self._offsets[place] = start + 10
        now_ms = self.driver.now_ms
        named = {(topic, other): self._offsets.get((connection.id, topic, other), 0) for other in beside}
        for rule in self.rules:
            rule.fetching(connection, sender, {**named, (topic, partition): start}, now_ms)
        labels = {rule.name: rule.label(connection, sender, topic, partition, start, now_ms) for rule in self.rules}
        return Fetched(labels)

    def _of(self, group: str) -> list[Member]:
        return [member for member in self.members if member.group == group]

    def _sync(self, members: list[Member], leader: str) -> None:
        shares = {m.id: assignment(*((TOPIC, partition) for partition in m.partitions)) for m in members}
        for member in sorted(members, key=lambda m: m.id == leader):
            given = shares if member.id == leader else None
            self._send(member, sync(member.id, member.generation, given, group=member.group))
        self._deliver()

    def _simple(self, connection: Connection, group: str, request: Request) -> None:
        for rule in self.rules:
            rule.requested(connection, connection.client_id, group)
        self.driver.principal = connection.principal
        self.driver.exchange(request, client=connection.client_id, host=connection.host)
        self._deliver()

    def _send(self, member: Member, request: Request) -> Token:
        connection = member.connection
        for rule in self.rules:
            rule.requested(connection, connection.client_id, member.group)
        self.driver.principal = connection.principal
        token = self.driver.send(request, client=connection.client_id, host=connection.host)
        self._deliver()
        return token

    def _exchange(self, member: Member, request: Request) -> Any:
        return self.driver.response(self._send(member, request))

    def _deliver(self) -> None:
        """Deliver the coordinator's new updates to all rules."""
        updates = tuple(self.driver.updates[self._delivered :])
        self._delivered += len(updates)
        self._say(updates, self.coordinator_on, stopping=False)

    def _say(self, updates: tuple[RegistrationUpdate, ...], broker: str, *, stopping: bool) -> None:
        for update in updates:
            member = self._known.get(update.member_id)
            if isinstance(update, Withdrawal) and member is not None:
                for rule in self.rules:
                    rule.removed(broker, member, stopping=stopping)
        if updates:
            for rule in self.rules:
                rule.stated(updates, self.driver.now_ms)
