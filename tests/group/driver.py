"""A coordinator, its log and its clock under one control: virtual time, no sleeping, no mocks of the core's parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.primitives import Writer
from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.events import Event
from muster.actors.group.hard import HardState
from muster.actors.group.lease import SeenHeartbeat
from muster.actors.group.messages import (
    CommitPartition,
    CommitTopic,
    FetchedOffset,
    FetchTopic,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchGroup,
    Request,
    Response,
    SyncGroup,
    SyncGroupResponse,
    TxnOffsetCommit,
    WriteTxnMarker,
)
from muster.actors.group.state import Group
from muster.actors.group.types import GroupId, MemberId, Outcome, Producer, Token, TxnMarker
from muster.placement.client import Context
from muster.placement.mapping.registration import RegistrationUpdate
from tests.group.transactions.logged import Logged, logged, replay, replay_latest

G = GroupId("g")
HOST = "10.0.0.7"
Protocol = tuple[str, bytes]


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription v0."""
    out = Writer().int16(0).int32(len(topics))
    for topic in topics:
        out.string(topic)
    return out.int32(-1).bytes()


def assignment(*partitions: tuple[str, int]) -> bytes:
    """ConsumerProtocolAssignment v0."""
    out = Writer().int16(0).int32(len(partitions))
    for topic, partition in partitions:
        out.string(topic).int32(1).int32(partition)
    return out.int32(-1).bytes()


RANGE = ("range", subscription("t"))
ROUNDROBIN = ("roundrobin", subscription("t"))


def join(
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: tuple[Protocol, ...] = (RANGE,),
    protocol_type: str = "consumer",
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
    version: int = 9,
    group: str = G,
) -> JoinGroup:
    return JoinGroup(
        api_version=version,
        group_id=GroupId(group),
        member_id=MemberId(member_id),
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=protocols,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
    )


def sync(
    member_id: str,
    generation: int,
    assignments: Mapping[str, bytes] | Mapping[MemberId, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
    version: int = 5,
    group: str = G,
) -> SyncGroup:
    return SyncGroup(
        api_version=version,
        group_id=GroupId(group),
        generation_id=generation,
        member_id=MemberId(member_id),
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=tuple((MemberId(member), data) for member, data in (assignments or {}).items()),
    )


def beat(member_id: str, generation: int, *, instance: str | None = None, group: str = G) -> Heartbeat:
    return Heartbeat(
        api_version=4,
        group_id=GroupId(group),
        generation_id=generation,
        member_id=MemberId(member_id),
        group_instance_id=instance,
    )


def leave(*members: str | tuple[str, str | None], version: int = 5, group: str = G) -> LeaveGroup:
    pairs = [(member, None) if isinstance(member, str) else member for member in members]
    return LeaveGroup(
        api_version=version,
        group_id=GroupId(group),
        members=tuple(LeavingMember(member_id=MemberId(m), group_instance_id=i) for m, i in pairs),
    )


def commit(
    offsets: dict[tuple[str, int], int],
    *,
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = None,
    retention_ms: int | None = None,
    version: int = 9,
    group: str = G,
) -> OffsetCommit:
    by_topic: dict[str, list[CommitPartition]] = {}
    for (topic, index), offset in offsets.items():
        by_topic.setdefault(topic, []).append(CommitPartition(partition=index, offset=offset, metadata=metadata))
    return OffsetCommit(
        api_version=version,
        group_id=GroupId(group),
        generation_id=generation,
        member_id=MemberId(member_id),
        group_instance_id=instance,
        retention_ms=retention_ms,
        topics=tuple(CommitTopic.of(name, parts) for name, parts in by_topic.items()),
    )


def fetch(*partitions: tuple[str, int], everything: bool = False, stable: bool = False, group: str = G) -> OffsetFetch:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = tuple(FetchTopic(name=name, partitions=tuple(indices)) for name, indices in by_topic.items())
    wanted = OffsetFetchGroup(group_id=GroupId(group), topics=None if everything else topics)
    return OffsetFetch(api_version=8, groups=(wanted,), require_stable=stable)


def txn_commit(
    offsets: dict[tuple[str, int], int],
    *,
    producer_id: int = 1000,
    epoch: int = 0,
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = None,
    group: str = G,
) -> TxnOffsetCommit:
    return TxnOffsetCommit(
        api_version=4,
        transactional_id=f"txn-{producer_id}",
        group_id=GroupId(group),
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id=generation,
        member_id=MemberId(member_id),
        group_instance_id=instance,
        topics=commit(offsets, metadata=metadata).topics,
    )


def marker(
    *, commit: bool = True, producer_id: int = 1000, epoch: int = 0, coordinator_epoch: int = 3
) -> WriteTxnMarker:
    return WriteTxnMarker(marker=TxnMarker(Producer(producer_id, epoch), commit, coordinator_epoch))


class Driver:
    """Drives one coordinator. With ``auto`` every append is durable at once; else ``write_all`` and ``fail`` decide."""

    def __init__(self, config: GroupConfig | None = None, *, auto: bool = True, start: bool = True) -> None:
        self.config = config or GroupConfig()
        self.auto = auto
        self.now_ms = 1_000_000
        self.log: list[Logged] = []
        self.unwritten: list[Outcome] = []
        self.responses: dict[Token, Response] = {}
        self.requests: dict[Token, Request] = {}
        self.events: list[Event] = []
        self.updates: list[RegistrationUpdate] = []
        self.leases: list[tuple[Token, GroupId, MemberId]] = []
        self.revoked: list[GroupId] = []
        self.gateways_confirm = True
        """Whether they confirm the end of a lease at once."""
        self._ids = itertools.count(1)
        self._tokens = itertools.count(1)
        self.epoch = 0
        self.topics: dict[str, TopicInfo] = {}
        """Topics of the cluster that the core knows."""
        self._topics_version = 0
        self.core = self._new_core()
        if start:
            self._take(self.core.loaded(self.now_ms))

    def _new_core(self) -> Coordinator:
        self.epoch += 1
        return Coordinator(partition=7, epoch=self.epoch, config=self.config, new_id=lambda: f"id{next(self._ids)}")

    def send(self, request: Request, *, client: str | None = "c", host: str = HOST, **where: str) -> Token:
        token = Token(next(self._tokens))
        self.requests[token] = request
        self._take(self.core.step(request, Context(client_id=client, host=host, **where), token, self.now_ms))
        return token

    def exchange(self, request: Request, *, client: str | None = "c", host: str = HOST, **where: str) -> Any:
        """Send a request; return the response, which must be there at once."""
        token = self.send(request, client=client, host=host, **where)
        assert token in self.responses, f"parked: {request}"
        return self.responses[token]

    def park(self, request: Request, *, client: str | None = "c", host: str = HOST, **where: str) -> Token:
        """Send a request that must not get a response at once; return its token."""
        token = self.send(request, client=client, host=host, **where)
        assert token not in self.responses, f"answered: {self.responses[token]}"
        return token

    def error(self, request: Request, **kwargs: Any) -> ErrorCode:
        return error_of(self.exchange(request, **kwargs))

    def response(self, token: Token) -> Any:
        assert token in self.responses, f"still parked: {self.requests[token]}"
        return self.responses[token]

    def responses_to(self, tokens: list[Token]) -> list[Any]:
        """Let time pass, from timer to timer, until all of them have a response."""
        while self.waiting() & set(tokens):
            due = self.core.next_deadline_ms()
            assert due is not None, "nothing will ever answer them"
            self.advance(due - self.now_ms)
        return [self.response(token) for token in tokens]

    def waiting(self) -> set[Token]:
        return self.requests.keys() - self.responses.keys()

    def at(self, ms: int) -> None:
        """Go to that time since the start, firing every timer when it is due."""
        self.advance(1_000_000 + ms - self.now_ms)

    def advance(self, ms: int) -> None:
        target = self.now_ms + ms
        while (due := self.core.next_deadline_ms()) is not None and due <= target:
            self.now_ms = max(self.now_ms, due)
            self._take(self.core.tick(self.now_ms))
        self.now_ms = target

    def write_all(self) -> None:
        while self.unwritten:
            self._write(self.unwritten.pop(0))

    def fail(self, error: ErrorCode) -> None:
        """Fail the oldest append, and with it all later ones."""
        lost, self.unwritten = self.unwritten, []
        assert lost[0].write is not None
        self._take(self.core.write_failed(lost[0].write, error, self.now_ms))

    def seen(self, *members: str, ago_ms: int = 0, group: str = G) -> None:
        """Take a gateway's report that it has answered heartbeats of these members."""
        at_ms = self.now_ms - ago_ms
        heartbeats = [SeenHeartbeat(GroupId(group), MemberId(member), at_ms) for member in members]
        self._take(self.core.seen(heartbeats, self.now_ms))

    def resign(self) -> None:
        self._take(self.core.resign(self.now_ms))

    def topics_deleted(self, *topics: str) -> None:
        self._take(self.core.topics_deleted(topics, self.now_ms))

    def topics_known(self, topics: Mapping[str, TopicInfo]) -> None:
        """Replace all topics of the cluster."""
        self.topics = dict(topics)
        self._topics_version += 1
        self.core.topics_known(self.topics, self._topics_version)

    def restart(self) -> None:
        """End the actor, with everything that is not in the log; another one loads the log."""
        self.unwritten.clear()
        for token in self.waiting():
            del self.requests[token]
        self.core = self._new_core()
        self.core.topics_known(self.topics, self._topics_version)
        replay(self.core, self.log, self.now_ms)
        self._take(self.core.loaded(self.now_ms))

    def replayed(self) -> HardState:
        """Return the hard state that the log gives, which is that of its compacted form, too."""
        cores = [Coordinator(partition=7, epoch=0, config=self.config, new_id=str) for _ in range(2)]
        whole, latest = cores
        replay(whole, self.log)
        replay_latest(latest, self.log)
        assert latest.hard_state == whole.hard_state
        return whole.hard_state

    def group(self, group: str = G) -> Group:
        return self.core.groups[GroupId(group)]

    def offset(self, topic: str, partition: int, group: str = G) -> int:
        fetched: FetchedOffset = self.exchange(fetch((topic, partition), group=group)).groups[0].topics[0].partitions[0]
        return fetched.committed_offset

    def _take(self, outcome: Outcome) -> None:
        for token, response in outcome.replies:
            assert token in self.requests, f"no request has {token}"
            assert token not in self.responses, f"{token} is answered twice"
            self.responses[token] = response
        self.events += outcome.events
        self.updates += outcome.updates
        self.leases += outcome.leases
        self.revoked += outcome.revoked
        assert (bool(outcome.records) or outcome.marker is not None) == (outcome.write is not None)
        if outcome.write is not None:
            self.unwritten.append(outcome)
            if self.auto:
                self.write_all()
        if outcome.revoked and self.gateways_confirm:
            self.confirm(*outcome.revoked)

    def confirm(self, *groups: str) -> None:
        """All gateways confirm the end of these groups' leases."""
        self._take(self.core.leases_confirmed([GroupId(group) for group in groups], self.now_ms))

    def _write(self, outcome: Outcome) -> None:
        self.log += logged(outcome)
        assert outcome.write is not None
        self._take(self.core.written(outcome.write, self.now_ms))

    # Whole conversations.

    def new_member(self, client: str | None = "c", **options: Any) -> Token:
        """Send a dynamic member's two JoinGroups; return the token of the second, which is parked."""
        given: JoinGroupResponse = self.exchange(join(**options), client=client)
        assert given.error_code is ErrorCode.member_id_required
        return self.park(join(given.member_id, **options), client=client)

    def sync_all(self, joins: list[JoinGroupResponse], give: Callable[[str], bytes] | None = None) -> list[bytes]:
        """All members sync, the leader last; returns the assignments."""
        give = give or (lambda member_id: assignment(("t", 0)))
        name = joins[0].protocol_name
        kind = joins[0].protocol_type
        tokens = [
            self.send(sync(j.member_id, j.generation_id, protocol=name, protocol_type=kind))
            for j in joins
            if j.member_id != j.leader
        ]
        leader = next(j for j in joins if j.member_id == j.leader)
        shares = {member.member_id: give(member.member_id) for member in leader.members}
        tokens.append(
            self.send(sync(leader.member_id, leader.generation_id, shares, protocol=name, protocol_type=kind))
        )
        responses: list[SyncGroupResponse] = [self.response(token) for token in tokens]
        assert {response.error_code for response in responses} == {ErrorCode.none}
        return [response.assignment for response in responses]

    def stable(self, members: int = 1, **options: Any) -> list[str]:
        """Make a Stable group of that many dynamic members, generation 1; return their ids, the leader first."""
        tokens = [self.new_member(**options) for _ in range(members)]
        joins = self.responses_to(tokens)
        self.sync_all(joins)
        return [j.member_id for j in joins]

    def stable_static(self, *instances: str, version: int = 9, **options: Any) -> list[str]:
        """Make a Stable group of static members, generation 1; return their ids, the leader first."""
        tokens = [self.park(join(instance=i, version=version, **options)) for i in instances]
        joins = self.responses_to(tokens)
        self.sync_all(joins, lambda member_id: assignment(("t", len(member_id))))
        return [j.member_id for j in joins]


def error_of(response: Any) -> ErrorCode:
    """Return the one error of a response, wherever its API carries it."""
    if isinstance(response, LeaveGroupResponse) and len(response.members) == 1:
        return response.members[0].error_code
    if hasattr(response, "error_code"):
        error: ErrorCode = response.error_code
        return error
    groups = getattr(response, "groups", None) or getattr(response, "results", None)
    if groups:
        (group,) = groups
        return ErrorCode(group.error_code)
    errors = {partition.error_code for topic in response.topics for partition in topic.partitions}
    (error,) = errors
    return error
