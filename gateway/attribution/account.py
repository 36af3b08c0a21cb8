"""The account of one gateway: every byte of every Fetch response, under a group or under a reason.

At any time, for each (topic, partition), of bytes and of messages::

    sent == sum of groups + sum of reasons + overflow + removed + pending

*Pending* bytes wait for evidence and move to a group or a reason when they are settled. *Overflow* bytes are those of
groups beyond the limit on series. *Removed* bytes are those of series that were removed with their group
(:mod:`muster.gateway.attribution.series`).

Beside that, without any evidence, for each topic::

    sent == sum of principals
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from muster.actors.wire.kafka.steps import Steps, finish
from muster.gateway.attribution.ambiguity import AmbiguousClients
from muster.gateway.attribution.claims import Reader
from muster.gateway.attribution.connection import ConnectionState, Fetches
from muster.gateway.attribution.evidence_rules import EvidenceRules
from muster.gateway.attribution.one_to_one import pair_after_ms
from muster.gateway.attribution.pending_attributions import (
    COMPARISONS_PER_SETTLE,
    MAX_SENDS,
    PENDING_MS,
    Amount,
    Pending,
    PendingAttributions,
    Settlement,
)
from muster.gateway.attribution.series import (
    MAX_GROUP_SERIES,
    RETENTION_MS,
    Cell,
    GroupSeries,
    Place,
    PrincipalBook,
    PrincipalSeries,
    ReasonSeries,
    SeriesBook,
    Total,
)
from muster.gateway.attribution.slot import ClientKey
from muster.gateway.attribution.table import GRACE_MS, RegistrationTable
from muster.gateway.attribution.verdict import Evidence, Reason, Verdict
from muster.placement.mapping.registration import Registration, RegistrationUpdate, SimpleCommit

S = TypeVar("S", contravariant=True)
T = TypeVar("T")

Series = tuple[str | None, Reason | None, Evidence, str, int]
"""Group or reason, evidence, topic, partition."""


_COMPARISONS_PER_MS = 30
_MAX_AGAIN_MS = 1_000
"""After how many comparisons a stream that waits is judged again a millisecond later, and after how long at most."""

Part = tuple[str, int, int, int, int, int, int, int, int, int]
"""One partition of a Fetch response: topic, partition, fetch offset, first offset (the larger of the fetch offset and
the first batch's base offset), last offset (of the last batch, inclusive), messages, bytes and entries (record
batches), control records and aborted records among the messages. The last five count whole batches, as sent."""


class End(NamedTuple):
    """How far a client of a group had been sent a partition before the gateway restarted: the next offset."""

    group: str
    member_id: str | None
    host: str
    client_id: str | None
    topic: str
    partition: int
    offset: int


class Run(Protocol):
    """A sample that later samples may extend (``muster.actors.tables.spool.Run``)."""

    def extend(
        self,
        ts_ms: int,
        messages: int,
        size_bytes: int,
        first_offset: int,
        last_offset: int,
        control_records: int,
        aborted_records: int,
        /,
    ) -> bool:
        """Add the next sample with the same label at this time; False, without effect, if it does not continue it."""


class SampleSink(Protocol[S]):
    """The destination of samples (``muster.actors.tables.spool.SampleStore``)."""

    def add(self, sample: S, /) -> Run | None:
        """Add a sample whose attribution is final. Returns the run that begins with it, if it can be extended."""

    def add_pending(self, sample: S, /) -> int:
        """Add a sample that waits for evidence. Returns a handle."""

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        """Set the final attribution of a pending sample."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The account at one moment: for every place, ``sent`` is the sum of all the others."""

    sent: Mapping[Place, Total]
    groups: Mapping[GroupSeries, Total]
    reasons: Mapping[ReasonSeries, Total]
    overflow: Mapping[Place, Total]
    """Bytes of groups beyond the limit on series."""
    removed: Mapping[Place, Total]
    """Bytes of series that were removed with their group."""
    pending: Mapping[Place, Amount]
    principals: Mapping[PrincipalSeries, Total]
    folded: int
    """The number of series that the limit excludes."""


class _Stream:
    """Sends of one partition on one connection for one client id, while the verdict on it is current.

    Sends are counted here first, and added to the totals before the totals are read (:meth:`fold`).
    """

    __slots__ = (
        "again_ms",
        "bytes",
        "cell",
        "entries",
        "looked",
        "messages",
        "of_principal",
        "reached",
        "reason",
        "run",
        "total",
        "until_ms",
        "verdict",
        "version",
    )

    def __init__(
        self,
        version: int,
        until_ms: int,
        again_ms: int,
        verdict: Verdict,
        total: Cell,
        of_principal: Cell,
        cell: Cell | None,
    ) -> None:
        self.messages = 0
        self.bytes = 0
        self.entries = 0
        self.version = version
        """The version of the client's registrations when the verdict was given."""
        self.looked = -1
        """``RegistrationTable.changes`` when the version was last checked."""
        self.until_ms = until_ms
        self.again_ms = again_ms
        """Before this time, bytes that are pending stay so: a new verdict would take too long to give it each time."""
        self.verdict = verdict
        self.total = total
        self.of_principal = of_principal
        self.cell = cell
        """None while evidence may still come: the bytes are pending."""
        reason = Reason.PENDING if cell is None else verdict.reason
        self.reason = None if reason is None else reason.value
        self.run: Run | None = None
        """The run that the next sample may extend."""
        self.reached = 0
        """The offset after the last one sent."""

    def fold(self) -> None:
        for cell in (self.total, self.of_principal, self.cell):
            if cell is not None:
                cell.add(self.messages, self.bytes, self.entries)
        self.messages = self.bytes = self.entries = 0


class Account(Generic[T]):
    """``make_sample`` is the sample's class; it takes the keywords that :meth:`sent` passes (``Sample`` of the sink).

    Not thread-safe: for the gateway's event loop only. ``now_ms`` is always in ms since the epoch.
    """

    def __init__(
        self,
        sink: SampleSink[T],
        make_sample: Callable[..., T],
        *,
        pending_ms: int = PENDING_MS,
        grace_ms: int = GRACE_MS,
        max_pending_sends: int = MAX_SENDS,
        max_group_series: int = MAX_GROUP_SERIES,
        series_retention_ms: int = RETENTION_MS,
    ) -> None:
        self.table = RegistrationTable(grace_ms=grace_ms, memory_ms=pending_ms + 1_000)
        self._evidence_rules = EvidenceRules(
            self.table, memory_ms=grace_ms + pending_ms, pair_after_ms=pair_after_ms(pending_ms)
        )
        self._fetchers = self._evidence_rules.fetchers
        self._pending = PendingAttributions(self._evidence_rules, pending_ms=pending_ms, max_sends=max_pending_sends)
        self._sink = sink
        self._make_sample = make_sample
        self.ambiguous = AmbiguousClients(self.table)
        self._series = SeriesBook(max_group_series=max_group_series, retention_ms=series_retention_ms)
        self._totals: dict[Place, Cell] = {}
        self._principals = PrincipalBook()
        self._unfolded: list[_Stream] = []
        """Streams with amounts that are not in the totals yet, at most since the last settle."""
        self._now_ms = 0
        self.on_begun: Callable[[], None] | None = None
        """Called when a client begins to fetch a partition, or has gone while its bytes wait: the coordinators must be
        queried (:meth:`heard`)."""
        self.on_attributed: Callable[[str, int], None] | None = None
        """Called with each number of bytes whose group is certain, and the group."""

    def limit_hints(self, may_read: Callable[[str, str, str], bool]) -> None:
        """Believe a client id only for groups that its client may consume for: ``may_read(principal, host, group)``."""
        self._evidence_rules.may_read = may_read

    def sent(
        self,
        connection: ConnectionState,
        host: str,
        client_id: str | None,
        parts: Iterable[Part],
        now_ms: int,
    ) -> None:
        """Count what one Fetch response carries. Call it once, when the response is written to the socket.

        ``parts`` has one item for each partition with batches. ``host`` is canonical and does not change during the
        life of a connection.
        """
        fetches = connection.fetches.get(client_id)
        streams: Mapping[Place, _Stream] = {} if fetches is None else fetches.streams
        table = self.table
        for part in parts:
            topic, partition, _, first_offset, last_offset, messages, size_bytes, entries, control, aborted = part
            stream = streams.get((topic, partition))
            if stream is None or stream.looked != table.changes or now_ms > stream.until_ms:
                stream = self._stream(connection, host, client_id, part, now_ms)
            if not stream.bytes:
                self._unfolded.append(stream)
            stream.messages += messages
            stream.bytes += size_bytes
            stream.entries += entries
            stream.reached = last_offset + 1
            if self.on_attributed is not None and stream.cell is not None and stream.verdict.group is not None:
                self.on_attributed(stream.verdict.group, size_bytes)
            run = stream.run
            if run is None or not run.extend(now_ms, messages, size_bytes, first_offset, last_offset, control, aborted):
                if stream.cell is None:
                    self._wait(connection, host, client_id, part, stream, now_ms)
                else:
                    stream.run = self._sink.add(self._sample(host, client_id, part, stream, now_ms))

    def _stream(
        self, connection: ConnectionState, host: str, client_id: str | None, part: Part, now_ms: int
    ) -> _Stream:
        """Return the stream with a current verdict; the existing one if its verdict is still current."""
        topic, partition, fetch_offset, *_ = part
        connection.saw_client(client_id)
        streams = self._fetchers.of(connection, host, client_id).streams
        stream: _Stream | None = streams.get((topic, partition))
        if stream is not None and stream.cell is None and now_ms < stream.again_ms:
            return stream
        if stream is None or now_ms > stream.until_ms or stream.version != self.table.version(host, client_id):
            reached = 0 if stream is None else stream.reached
            stream = self._judge(connection, host, client_id, topic, partition, fetch_offset, now_ms)
            stream.reached = reached
            streams[topic, partition] = stream
        stream.looked = self.table.changes
        return stream

    def _wait(
        self,
        connection: ConnectionState,
        host: str,
        client_id: str | None,
        part: Part,
        stream: _Stream,
        now_ms: int,
    ) -> None:
        """Add a send whose evidence may still come to the pending ones."""
        topic, partition, _, _, _, messages, size_bytes, entries, _, _ = part
        handle = self._sink.add_pending(self._sample(host, client_id, part, stream, now_ms))
        entry = Pending(
            connection,
            host,
            client_id,
            topic,
            partition,
            now_ms,
            stream.verdict,
            messages,
            size_bytes,
            [handle],
            entries,
        )
        self._close(self._pending.add(entry))

    def _sample(self, host: str, client_id: str | None, part: Part, stream: _Stream, now_ms: int) -> T:
        topic, partition, _, first_offset, last_offset, messages, size_bytes, _, control, aborted = part
        return self._make_sample(
            ts_ms=now_ms,
            group=stream.verdict.group,
            member_id=stream.verdict.member_id,
            client_id=client_id,
            host=host,
            topic=topic,
            partition=partition,
            evidence=stream.verdict.evidence.value,
            reason=stream.reason,
            messages=messages,
            bytes=size_bytes,
            first_offset=first_offset,
            last_offset=last_offset,
            control_records=control,
            aborted_records=aborted,
        )

    def fetching(
        self,
        connection: ConnectionState,
        host: str,
        client_id: str | None,
        offsets: Mapping[Place, int],
        now_ms: int,
    ) -> None:
        """Record a Fetch that names exactly these partitions, each with its fetch offset. The mapping is kept.

        Also report Fetches with an empty response: which partitions a connection fetches, and the offset at which it
        began, is evidence.
        """
        connection.saw_client(client_id)
        begins = self._fetchers.saw(connection, host, client_id, offsets, now_ms)
        if begins and self.on_begun is not None:
            self.table.is_informed = True
            self.on_begun()

    def fetching_again(self, fetches: Fetches, now_ms: int) -> None:
        """Record a Fetch of the same partitions as the previous one of that connection and client id (``current``)."""
        fetches.before_last_ms, fetches.last_active_ms = fetches.last_active_ms, now_ms
        self._fetchers.tick(now_ms)

    def closed(self, connection: ConnectionState) -> None:
        """Record that the connection is closed. What was sent on it may still wait for evidence.

        Then coordinators are queried: who joins after they responded was not the one that has gone.
        """
        streams = [stream for fetches in connection.fetches.values() for stream in fetches.streams.values()]
        if self.on_begun is not None and any(stream.cell is None for stream in streams):
            self.on_begun()
        self._evidence_rules.closed(connection)

    def group_request(self, connection: ConnectionState, host: str, client_id: str | None, group: str) -> None:
        """Record a JoinGroup, SyncGroup, Heartbeat or OffsetCommit on that connection.

        FindCoordinator, OffsetFetch and admin requests must not be reported: tools send them for groups that others
        consume for (F11).
        """
        if connection.saw_group(client_id, group):
            self._close(self._pending.changed(((host, client_id),), self._now_ms))

    def bytes_by_group(
        self, connection: ConnectionState, host: str, client_id: str | None, parts: Iterable[Part], now_ms: int
    ) -> dict[str, int]:
        """To which groups these bytes would be attributed as far as it is known, before they are sent."""
        fetches = connection.fetches.get(client_id)
        found: dict[str, int] = {}
        for topic, partition, *_, size_bytes, _, _, _ in parts:
            stream: _Stream | None = None if fetches is None else fetches.streams.get((topic, partition))
            if stream is not None and stream.cell is not None:
                group = stream.verdict.group
            else:
                group = self.group_of(connection, host, client_id, now_ms)
            if group is not None:
                found[group] = found.get(group, 0) + size_bytes
        return found

    def group_of(self, connection: ConnectionState, host: str, client_id: str | None, now_ms: int) -> str | None:
        """Return the group that the connection works for; else that of all clients of that host and client id.

        For uses that are not counted: a verdict on bytes needs better evidence. A group of other principals only is
        none.
        """
        if (group := connection.group_of(client_id)) is not None:
            return group
        fetches = connection.fetches.get(client_id)
        if fetches is not None and fetches.identity is not None:
            return fetches.identity.group
        slot = self.table.slot(host, client_id)
        by = Reader(connection.principal, simple_of=frozenset()) if fetches is None else fetches.reader
        groups = {group for group, _ in slot.candidates(now_ms, by)} if slot is not None else set()
        return groups.pop() if len(groups) == 1 else None

    def updates(self, updates: Iterable[RegistrationUpdate], now_ms: int) -> None:
        """Apply the coordinators' updates, and settle what waited for them."""
        changed: set[ClientKey] = set()
        for update in updates:
            if isinstance(update, SimpleCommit):
                changed |= self._evidence_rules.committed(update, now_ms)
            else:
                changed |= self.table.apply(update, now_ms)
        self._changed(changed, now_ms)

    def replace(
        self,
        offsets_partition: int,
        epoch: int,
        registrations: Iterable[Registration],
        now_ms: int,
        *,
        sequence: int | None = None,
    ) -> None:
        """Apply a coordinator's snapshot (:meth:`RegistrationTable.replace`), and settle what waited for it."""
        changed = self.table.replace(offsets_partition, epoch, registrations, now_ms, sequence=sequence)
        self._changed(changed, now_ms)

    def heard(self, sent_ms: int) -> None:
        """Record that all coordinators were queried at that time or later, and all their earlier updates are here.

        Updates that arrive from now on were not yet sent at that time, and no client had acted on them.
        """
        self.table.heard(sent_ms)
        self._close(self._pending.changed(self._evidence_rules.heard(), self._now_ms))

    def resumes(self, ends: Iterable[End], now_ms: int) -> None:
        """Record where streams ended that clients will continue. Call it before the first connection."""
        for end in ends:
            self.table.positions.add_one(
                (end.host, end.client_id), (end.topic, end.partition), end.offset, end.group, now_ms, is_end=True
            )

    def settle(self, now_ms: int) -> None:
        """All of :meth:`settle_in_steps` at once."""
        finish(self.settle_in_steps(now_ms))

    def settle_in_steps(self, now_ms: int) -> Steps[None]:
        """Settle what has waited too long; forget old tenures and groups. Call it about once a second.

        Only one may be under way. Everything else may happen between its steps.
        """
        self._now_ms = max(self._now_ms, now_ms)
        changed = yield from self._evidence_rules.settle(now_ms)
        self._close(self._pending.changed(changed, now_ms))
        left = COMPARISONS_PER_SETTLE
        while left > 0:
            yield
            settlements, work = self._pending.settle(now_ms)
            self._close(settlements)
            if not work:
                break
            left -= work
        yield
        self._fold()
        self.table.prune(now_ms)
        self._series.retire(self._registered_groups, now_ms)
        self.ambiguous.review(self._now_ms)

    @property
    def is_pending(self) -> bool:
        """Whether bytes have no final attribution yet."""
        return bool(self._pending.pending())

    def close(self) -> None:
        """Settle all pending sends as they stand. Call it before the sink is closed."""
        self._close(self._pending.close(self._now_ms))

    def snapshot(self) -> Snapshot:
        """Return everything as it is now."""
        self._fold()
        series = self._series
        return Snapshot(
            sent={place: cell.total() for place, cell in self._totals.items()},
            groups={name: cell.total() for name, cell in series.groups()},
            reasons={name: cell.total() for name, cell in series.reasons().items()},
            overflow={place: cell.total() for place, cell in series.overflow().items()},
            removed={place: cell.total() for place, cell in series.removed().items()},
            pending=self._pending.pending(),
            principals={name: cell.total() for name, cell in self._principals.cells.items()},
            folded=series.folded,
        )

    def totals(self) -> Mapping[Place, Amount]:
        """Return the amounts sent, by (topic, partition)."""
        self._fold()
        return {place: Amount(cell.messages, cell.bytes) for place, cell in self._totals.items()}

    def settled(self) -> Mapping[Series, Amount]:
        """Return the amounts with a final label and a series of their own, by group or reason."""
        self._fold()
        amounts: dict[Series, Amount] = {}
        for (group, evidence, topic, partition), cell in self._series.groups():
            amounts[group, None, evidence, topic, partition] = Amount(cell.messages, cell.bytes)
        for (reason, topic, partition), cell in self._series.reasons().items():
            amounts[None, reason, Evidence.NONE, topic, partition] = Amount(cell.messages, cell.bytes)
        return amounts

    def pending(self) -> Mapping[Place, Amount]:
        """Return the amounts that still wait for evidence, by (topic, partition)."""
        return self._pending.pending()

    @property
    def folded(self) -> int:
        """The number of series that the limit excludes."""
        return self._series.folded

    def registrations(self) -> int:
        """Return the number of current registrations."""
        return len(self.table)

    def ambiguous_clients(self) -> int:
        """Return the number of (host, client id) that belong to more than one group of one principal."""
        return len(self.ambiguous)

    def _fold(self) -> None:
        """Bring the totals up to date: before they are read, and before series are removed (streams may use them)."""
        for stream in self._unfolded:
            stream.fold()
        self._unfolded.clear()

    def _judge(
        self,
        connection: ConnectionState,
        host: str,
        client_id: str | None,
        topic: str,
        partition: int,
        fetch_offset: int,
        now_ms: int,
    ) -> _Stream:
        self._fetchers.sent(connection, host, client_id, (topic, partition), fetch_offset, now_ms)
        before = self._evidence_rules.comparisons
        verdict = self._evidence_rules.judge(connection, host, client_id, topic, partition, now_ms)
        compared = self._evidence_rules.comparisons - before
        slot = self.table.slot(host, client_id)
        until_ms = now_ms + self._series.lease_ms
        if slot is not None:
            until_ms = min(until_ms, slot.constant_until_ms(now_ms))
        total = self._totals.get((topic, partition))
        if total is None:
            total = self._totals[topic, partition] = Cell(now_ms)
        cell = self._series.cell(verdict, topic, partition, now_ms) if verdict.is_final else None
        again_ms = now_ms + min(compared // _COMPARISONS_PER_MS, _MAX_AGAIN_MS)
        of_principal = self._principals.cell(connection.principal, topic, now_ms)
        return _Stream(self.table.version(host, client_id), until_ms, again_ms, verdict, total, of_principal, cell)

    def _registered_groups(self) -> set[str]:
        return {registration.group for registration in self.table}

    def _changed(self, keys: Iterable[ClientKey], now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)
        self.ambiguous.changed(keys)
        self._close(self._pending.changed(keys, self._now_ms))

    def _close(self, settlements: list[Settlement]) -> None:
        for settlement in settlements:
            entry = settlement.entry
            cell = self._series.cell(settlement.verdict, entry.topic, entry.partition, self._now_ms)
            cell.add(entry.messages, entry.bytes, entry.entries)
            if self.on_attributed is not None and settlement.verdict.group is not None:
                self.on_attributed(settlement.verdict.group, entry.bytes)
        for settlement in settlements:
            verdict = settlement.verdict
            for handle in settlement.entry.handles:
                self._sink.settle(
                    handle,
                    group=verdict.group,
                    member_id=verdict.member_id,
                    evidence=verdict.evidence.value,
                    reason=None if verdict.reason is None else verdict.reason.value,
                )
