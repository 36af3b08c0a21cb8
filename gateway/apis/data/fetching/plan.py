"""Plan of a Fetch: its partitions, and which actor returns which. A session keeps it while nothing changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import ref

from muster.actors.wire.internal.channel import ChannelLost
from muster.actors.wire.internal.fetch import (
    AbortedTransaction,
    FetchedPartition,
    LastFetched,
    Place,
    pack_partition,
)
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer
from muster.gateway.apis.data.fetching.request import Request
from muster.gateway.apis.guards.rights import CLUSTER_ACTION, READ_TOPIC
from muster.gateway.fetch_sessions.contexts import FetchContext
from muster.gateway.fetch_sessions.partition import CachedPartition, Result
from muster.gateway.listener.api import Call
from muster.gateway.listener.file_records import FileRecords
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.gateway import Gateway
from muster.gateway.security.authorization.authorizer import Authorizer
from muster.placement.security.acls import CLUSTER_NAME
from muster.placement.view import COORDINATORS, ClusterView, Topic

HERE = -1
"""No other replica is preferred."""


class PartitionData(NamedTuple):
    """Partition of a response."""

    partition_index: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: Sequence[AbortedTransaction] | None
    preferred_read_replica: int
    records: Sequence[Buffer | FileRecords] | bytes


class Wanted:
    """A session keeps it from one request to the next; what was found is forgotten with each response."""

    __slots__ = (
        "__weakref__",
        "cached",
        "fetch_offset",
        "files",
        "found",
        "index",
        "packed",
        "preferred",
        "records",
        "topic",
    )

    def __init__(self, cached: CachedPartition, topic: Topic | None, preferred: int = HERE) -> None:
        """``topic``: None if none has the name or id of the request."""
        self.cached = cached
        self.fetch_offset = cached.fetch_offset
        self.topic = topic
        self.index = cached.key[2]
        self.preferred = preferred
        """The replica that the consumer should fetch from instead, by broker id."""
        self.found: FetchedPartition | None = None
        self.records: Sequence[Buffer] = ()
        self.files: Sequence[FileRecords] = ()
        """The records once more, if they are in files and need not stay in memory."""
        self.packed = b"" if topic is None else self.pack(topic, cached.max_bytes)

    def pack(self, topic: Topic, max_bytes: int) -> bytes:
        """Return the partition of a request to the actor."""
        cached = self.cached
        epochs = cached.current_leader_epoch, cached.last_fetched_epoch
        return pack_partition(topic.topic_id, self.index, epochs[0], self.fetch_offset, max_bytes, epochs[1])

    def fail(self, error: ErrorCode) -> None:
        self.found, self.records, self.files = FetchedPartition(error, -1, -1), (), ()

    def take(self, found: FetchedPartition) -> None:
        self.found = found
        self.records, self.files = (found.records,) if found.records else (), ()
        if self.preferred != HERE:
            self.drop()

    def shorten(self, places: Sequence[Place]) -> None:
        """Keep only the records at these places."""
        assert self.found is not None
        self.found = self.found._replace(places=places)

    def drop(self) -> None:
        """Leave its records out."""
        assert self.found is not None
        aborted = None if self.found.aborted_transactions is None else ()
        self.found = self.found._replace(places=(), records=b"", aborted_transactions=aborted)
        self.records, self.files = (), ()

    def forget(self) -> None:
        """Drop the result: the response is written."""
        self.found, self.records, self.files = None, (), ()

    @property
    def leads_away(self) -> bool:
        """Whether the consumer is sent to another replica instead of getting records."""
        return self.preferred != HERE

    @property
    def places(self) -> Sequence[Place]:
        """Where records are that have not been read."""
        return self.found.places if self.found is not None and not self.records else ()

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records)) or sum(place.size_bytes for place in self.places)

    @property
    def failed(self) -> bool:
        return self.found is not None and self.found.error_code is not ErrorCode.none

    @property
    def diverges(self) -> bool:
        return self.found is not None and self.found.diverging is not None

    @property
    def result(self) -> Result:
        """Result for the session."""
        found = self.found
        assert found is not None
        is_error = found.error_code is not ErrorCode.none
        leads_away = self.leads_away and not is_error
        ends = (found.high_watermark, found.log_start_offset)
        return Result(is_error, *ends, bool(self.records), leads_away, found.diverging is not None)

    def response(self) -> PartitionData | dict[str, Any]:
        """Return the result for the client."""
        assert self.found is not None
        error, high_watermark, log_start_offset, _, _, last_stable_offset, aborted, diverging = self.found
        data = PartitionData(
            self.index,
            error,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            self.preferred if error is ErrorCode.none else HERE,
            [*(self.files or self.records)],
        )
        return data if diverging is None else {**data._asdict(), "diverging_epoch": diverging}


def envelope(error: ErrorCode, session_id: int, responses: Sequence[Any]) -> dict[str, Any]:
    """Return the response."""
    return {"throttle_time": 0, "error_code": error, "session_id": session_id, "responses": responses}


REPLACED = ErrorCode.not_leader_or_follower
"""Error of all partitions of an actor that is about to be replaced."""


Verdicts = Mapping[str, bool]
"""Whether each topic may be read."""


class Reader(NamedTuple):
    """Who fetches."""

    authorizer: Authorizer
    principal: str
    host: str
    is_follower: bool

    @classmethod
    def of(cls, call: Call, request: Request) -> Reader | None:
        """Return None if everyone may read everything."""
        if (authorizer := call.gateway.authorizer) is None:
            return None
        return cls(authorizer, call.connection.principal, call.connection.host, request.is_of_follower)

    def judge(self, call: Call, items: list[Wanted]) -> tuple[Verdicts, Collection[Wanted]]:
        """Return the decisions, and the partitions that the client may not read; not those of ids that no topic has.

        Followers need another right (KIP-595); there is none, so no client has it.
        """
        names = {item: item.cached.key[0] if item.topic is None else item.topic.name for item in items}
        counts = Counter(name for name in names.values() if name is not None)
        if self.is_follower and counts:
            counts = Counter({CLUSTER_NAME: 1})
            names = dict.fromkeys(items, CLUSTER_NAME)
        right = CLUSTER_ACTION if self.is_follower else READ_TOPIC
        verdicts = {name: call.allows(*right, name, count=count) for name, count in counts.items()}
        if all(verdicts.values()):
            return verdicts, ()
        return verdicts, {item for item, name in names.items() if name is not None and not verdicts[name]}


class Part:
    """The partitions that one actor owns."""

    __slots__ = ("found", "items", "last", "owner", "packed", "settled")

    def __init__(self, owner: ActorKey, items: list[Wanted], last: LastFetched | None = None) -> None:
        """``last``: if it may be requested again."""
        self.owner = owner
        self.items = items
        self.packed = b""
        self.last = last
        self.found: list[FetchedPartition] | None = None
        self.settled: list[FetchedPartition] | None = None
        """Response that the client has been sent completely."""

    def take(self, found: list[FetchedPartition] | ChannelLost) -> None:
        """Take the actor's response. Nothing has to be done if the client knows it."""
        if isinstance(found, ChannelLost):
            self.found = self.settled = None
            for item in self.items:
                item.fail(REPLACED)
        elif found is not self.settled:
            self.found, self.settled = found, None
            for item, part in zip(self.items, found, strict=True):
                item.take(part)

    def settle(self) -> None:
        """Mark the response as sent to the client."""
        found, self.found = self.found, None
        if found is None:
            return
        self.settled = None
        for part, item in zip(found, self.items, strict=True):
            if part.error_code is not ErrorCode.none or part.diverging is not None or item.preferred != HERE:
                return
        self.settled = found

    def forget(self) -> None:
        """Drop the response, which is not sent."""
        if not self.is_quiet:
            self.found = None
            for item in self.items:
                item.forget()

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

    def __init__(
        self,
        call: Call,
        reader: Reader | None,
        partitions: Collection[CachedPartition],
        rack: str,
        *,
        is_kept: bool = False,
        reuse: bool = False,
    ) -> None:
        """``is_kept``: whether a session has it. ``reuse``: what a plan before it has found out of partitions that are
        requested as before.
        """
        gateway = call.gateway
        self.reader = reader
        self.view = gateway.view
        self.rack = rack
        self.changes = 0
        self.items = [_wanted(self.view, each, reuse=reuse) for each in partitions]
        self.verdicts, self.refused = ({}, ()) if reader is None else reader.judge(call, self.items)
        self.failed: dict[Wanted, ErrorCode] = {}
        """Partitions that do not exist, or that the client may not read."""
        allowed = [item for item in self.items if item not in self.refused] if self.refused else self.items
        self.leads_away = bool(rack) and _prefer_rack(gateway, rack, allowed)
        """Whether the consumer is sent to another replica of any of them."""
        self.offsets: Mapping[tuple[str, int], int]
        """Fetch offsets, as evidence of the consumer's group."""
        self.parts: list[Part] = self._assign(is_kept=is_kept)

    def _assign(self, *, is_kept: bool) -> list[Part]:
        parts: dict[ActorKey, Part] = {}
        self.offsets = offsets = {}
        for item in self.items:
            topic, index = item.topic, item.index
            is_refused = bool(self.refused) and item in self.refused
            if topic is not None and item.preferred == HERE and not is_refused:
                offsets[topic.name, index] = item.fetch_offset
            if topic is None or is_refused or not 0 <= index < topic.partitions:
                error = self.failed[item] = ErrorCode.topic_authorization_failed if is_refused else _missing(item)
                item.fail(error)
                continue
            if item.found is not None:
                item.forget()
            owner = ("log", self.view.log_of(topic, index))
            if topic.name in COORDINATORS:
                owner = (COORDINATORS[topic.name], index)
            part = parts.get(owner)
            if part is None:
                part = parts[owner] = Part(owner, [], LastFetched() if is_kept else None)
            part.items.append(item)
        for part in parts.values():
            part.packed = b"".join([item.packed for item in part.items])
        return [*parts.values()]

    def decided_again(self, call: Call) -> None:
        """Count and log the decisions of this plan, which hold for another request."""
        if self.reader is None:
            return
        if not self.refused and not call.gateway.authorization_log.logs_allowed:
            call.gateway.metrics.authorized(True, len(self.verdicts))
            return
        right = CLUSTER_ACTION if self.reader.is_follower else READ_TOPIC
        for name, allowed in self.verdicts.items():
            call.decided(allowed, *right, name)

    @property
    def touched(self) -> list[Wanted]:
        """Partitions of which something was found that the client may not know."""
        if not self.failed:
            for part in self.parts:
                if part.settled is None:
                    break
            else:  # the client knows all that was found
                return []
        return [item for item in self.items if item.found is not None]

    def forget(self) -> None:
        """Drop the responses, which are not sent; they will be fetched again."""
        for part in self.parts:
            part.forget()

    def settle(self, touched: Iterable[Wanted]) -> None:
        """Settle the plan: the response with these is written, and the session may use it again."""
        for item in touched:
            item.forget()
        for part in self.parts:
            part.settle()
        for item, error in self.failed.items():
            item.fail(error)


def plan_of(call: Call, request: Request, context: FetchContext) -> Plan:
    """Return the plan for a request; that of the session, if it has one, and nothing has changed.

    A session is not bound to its client, nor to ACLs: each request is judged.
    """
    session, rack = context.session, request.rack_id
    reader = Reader.of(call, request)
    if session is None:
        return Plan(call, reader, context.partitions, rack)
    before: Plan | None = session.plan
    session.plan = None
    is_as_before = before is not None and before.view is call.gateway.view and before.rack == rack
    if before is not None and is_as_before and before.changes == session.changes and before.reader == reader:
        before.decided_again(call)
        return before
    plan = Plan(call, reader, context.partitions, rack, is_kept=True, reuse=is_as_before)
    plan.changes = session.changes
    return plan


def _wanted(view: ClusterView, partition: CachedPartition, *, reuse: bool) -> Wanted:
    found = partition.resolved() if reuse and partition.resolved is not None else None
    if found is None:
        name, topic_id, _ = partition.key
        topic = view.topics.get(name) if name else view.topic_by_id(topic_id) if topic_id else None
        found = Wanted(partition, topic)
        partition.resolved = ref(found)
        partition.was_known = partition.was_known or topic is not None
    return found


def _missing(item: Wanted) -> ErrorCode:
    """Return the error of a missing partition, like Kafka, whose sessions keep a topic id's former name."""
    is_by_name = item.topic is not None or item.cached.key[0] is not None or item.cached.was_known
    return ErrorCode.unknown_topic_or_partition if is_by_name else ErrorCode.unknown_topic_id


def _prefer_rack(gateway: Gateway, rack: str, wanted: list[Wanted]) -> bool:
    """Lead a consumer of another rack to the replica there (KIP-392), if the partition has one."""
    if gateway.view.rack_of(gateway.id) == rack:
        return False
    for item in wanted:
        topic = item.topic
        replica = None if topic is None else gateway.view.replica_in(rack, topic, item.index)
        item.preferred = HERE if replica is None else replica
    return any(item.leads_away for item in wanted)
