"""Which actor returns which partitions of a Fetch. A session keeps its plan while nothing changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from muster.actors.wire.channel import ChannelLost
from muster.actors.wire.codec import ErrorCode
from muster.actors.wire.fetching import FetchedPartition, LastFetched
from muster.gateway.apis.data.fetching.wanted import HERE, Wanted
from muster.gateway.apis.partitions import existence_error, named, owner_of
from muster.gateway.fetch_sessions.contexts import FetchContext
from muster.gateway.fetch_sessions.partition import CachedPartition
from muster.gateway.fetch_sessions.session import FetchSession
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.gateway import Gateway

REPLACED = ErrorCode.not_leader_or_follower
"""Of all partitions of an actor that is about to be replaced."""


class Part:
    """The partitions that one actor owns."""

    def __init__(self, owner: ActorKey, items: list[Wanted]) -> None:
        self.owner = owner
        self.items = items
        self.packed = b""
        self.last = LastFetched()
        self.found: list[FetchedPartition] | None = None
        self.settled: list[FetchedPartition] | None = None
        """What the client has been sent all of."""

    def take(self, found: list[FetchedPartition] | ChannelLost) -> None:
        """The actor's response. Nothing has to be done if it is what the client knows."""
        if isinstance(found, ChannelLost):
            self.found = self.settled = None
            for item in self.items:
                item.fail(REPLACED)
        elif found is not self.settled:
            self.found, self.settled = found, None
            for item, part in zip(self.items, found, strict=True):
                item.take(part)

    def settle(self) -> None:
        """The client has been sent what was found."""
        if self.found is not None:
            is_all = all(part.error_code is ErrorCode.none and part.diverging is None for part in self.found)
            self.settled = self.found if is_all and not any(item.leads_away for item in self.items) else None
        self.found = None

    @property
    def is_quiet(self) -> bool:
        """Whether the client knows all that was found."""
        return self.settled is not None

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)

    @property
    def has_ended(self) -> bool:
        """Whether a response need not wait for more: there are records, or an error."""
        return any(item.failed or item.diverges or item.size_bytes for item in self.items)


class Plan:
    """For one request at a time."""

    def __init__(self, gateway: Gateway, partitions: Collection[CachedPartition], rack: str, *, reuse: bool) -> None:
        """``reuse``: what a plan before it has found out of partitions that are requested as before."""
        self.view = gateway.view
        self.rack = rack
        self.changes = 0
        self.parts: list[Part] = []
        self.failed: list[Wanted] = []
        """Partitions that do not exist."""
        self.items = [_wanted(gateway, each, reuse=reuse) for each in partitions]
        self.leads_away = bool(rack) and _prefer_rack(gateway, rack, self.items)
        """Whether the consumer is sent to another replica of any of them."""
        self._assign(gateway)
        self.offsets: Mapping[tuple[str, int], int] = {
            (item.named.topic.name, item.named.partition): item.fetch_offset
            for item in self.items
            if item.named.topic is not None and not item.leads_away
        }
        """What is evidence of the consumer's group."""

    def _assign(self, gateway: Gateway) -> None:
        parts: dict[ActorKey, Part] = {}
        for item in self.items:
            if (error := _existence_error(item)) is not None:
                item.fail(error)
                self.failed.append(item)
                continue
            assert item.named.topic is not None
            owner = owner_of(gateway, item.named.topic, item.named.partition)
            part = parts.get(owner)
            if part is None:
                part = parts[owner] = Part(owner, [])
            part.items.append(item)
        self.parts = list(parts.values())
        for part in self.parts:
            part.packed = b"".join([item.packed for item in part.items])

    @property
    def touched(self) -> list[Wanted]:
        """Partitions of which something was found that the client may not know."""
        if self.is_quiet:
            return []
        return [item for item in self.items if item.found is not None]

    @property
    def is_quiet(self) -> bool:
        """Whether the client knows all that was found."""
        return not self.failed and all(part.is_quiet for part in self.parts)

    def settle(self) -> None:
        """The response is written; the session may use the plan again."""
        for item in self.touched:
            item.forget()
        for part in self.parts:
            part.settle()
        for item in self.failed:
            item.fail(_existence_error(item) or ErrorCode.none)


def plan_of(gateway: Gateway, context: FetchContext, rack: str) -> Plan:
    """The plan for a request; that of the session, if it has one, and nothing has changed."""
    session = context.session
    if session is None:
        return Plan(gateway, context.partitions, rack, reuse=False)
    before: Plan | None = session.plan
    session.plan = None
    if _is_current(before, gateway, session, rack):
        assert before is not None
        return before
    reuse = before is not None and before.view is gateway.view and before.rack == rack
    plan = Plan(gateway, context.partitions, rack, reuse=reuse)
    plan.changes = session.changes
    return plan


def _is_current(plan: Plan | None, gateway: Gateway, session: FetchSession, rack: str) -> bool:
    return plan is not None and plan.changes == session.changes and plan.view is gateway.view and plan.rack == rack


def _wanted(gateway: Gateway, partition: CachedPartition, *, reuse: bool) -> Wanted:
    found: Wanted | None = partition.resolved if reuse else None
    if found is None:
        name, topic_id, index = partition.key
        found = partition.resolved = Wanted(partition, named(gateway, name, topic_id, index))
        partition.was_known = partition.was_known or found.named.topic is not None
    return found


def _existence_error(item: Wanted) -> ErrorCode | None:
    """As Kafka, whose sessions keep the name that they once had for a topic id."""
    error = existence_error(item.named)
    if error is ErrorCode.unknown_topic_id and item.cached.was_known:
        return ErrorCode.unknown_topic_or_partition
    return error


def _prefer_rack(gateway: Gateway, rack: str, wanted: list[Wanted]) -> bool:
    """Lead a consumer of another rack to the replica there (KIP-392), if the partition has one."""
    if gateway.view.rack_of(gateway.id) == rack:
        return False
    for item in wanted:
        topic = item.named.topic
        replica = None if topic is None else gateway.view.replica_in(rack, topic, item.named.partition)
        item.preferred = HERE if replica is None else replica
    return any(item.leads_away for item in wanted)
