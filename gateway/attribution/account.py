"""The books of one gateway: every byte of every Fetch answer, under a group or under a reason.

At any time, for each (topic, partition), of bytes and of messages::

    sent == sum of attributed + sum of unattributed + pending

*Attributed* and *unattributed* only grow; *pending* bytes are in the ledger and move to either when settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from gateway.attribution.connection import ConnectionState
from gateway.attribution.ladder import attribute
from gateway.attribution.ledger import MAX_SENDS, PENDING_MS, Amount, Ledger, Pending, Settlement
from gateway.attribution.slot import FOREVER_MS, Key
from gateway.attribution.table import GRACE_MS, RegistrationTable
from gateway.attribution.verdict import Evidence, Reason, Verdict
from placement.registration import Registration, Statement

S = TypeVar("S", contravariant=True)
T = TypeVar("T")

Series = tuple[str | None, Reason | None, Evidence, str, int]
"""Group or reason, evidence, topic, partition."""


class SampleSink(Protocol[S]):
    """Where samples go (``actors.tables.spool.SampleStore``)."""

    def add(self, sample: S, /) -> None:
        """A sample whose attribution is final."""

    def add_pending(self, sample: S, /) -> int:
        """A sample that waits for evidence; returns a handle."""

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        """The last word on a pending sample."""


class _Cell:
    """A running total."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0

    def amount(self) -> Amount:
        return Amount(self.messages, self.bytes)


class _Current:
    """A verdict for one connection and partition, and the totals it adds to, as long as it is current."""

    __slots__ = ("cell", "total", "until_ms", "verdict", "version")

    def __init__(self, version: int, until_ms: int, verdict: Verdict, total: _Cell, cell: _Cell | None) -> None:
        self.version = version
        self.until_ms = until_ms
        self.verdict = verdict
        self.total = total
        self.cell = cell
        """None while the verdict names no group: such bytes wait."""


class Account(Generic[T]):
    """``make_sample`` is the sample's class, taking the keywords that :meth:`sent` passes (``Sample`` of the sink).

    Not thread-safe: belongs to the gateway's event loop. ``now_ms`` is ms since the epoch everywhere.
    """

    def __init__(
        self,
        sink: SampleSink[T],
        make_sample: Callable[..., T],
        *,
        pending_ms: int = PENDING_MS,
        grace_ms: int = GRACE_MS,
        max_pending_sends: int = MAX_SENDS,
    ) -> None:
        self.table = RegistrationTable(grace_ms=grace_ms, memory_ms=pending_ms + 1_000)
        self._ledger = Ledger(self.table, pending_ms=pending_ms, max_sends=max_pending_sends)
        self._sink = sink
        self._make_sample = make_sample
        self._totals: dict[tuple[str, int], _Cell] = {}
        self._cells: dict[Series, _Cell] = {}

    def sent(
        self,
        connection: ConnectionState,
        host: str,
        client_id: str | None,
        topic: str,
        partition: int,
        fetch_offset: int,
        first_offset: int,
        last_offset: int,
        messages: int,
        bytes: int,
        now_ms: int,
    ) -> None:
        """Count what one Fetch answer carries of one partition. Call it once, when the answer goes to the socket.

        ``first_offset`` is the larger of the fetch offset and the first batch's base offset, ``last_offset`` that
        of the last batch (inclusive); ``messages`` and ``bytes`` are of whole batches, as sent. ``host`` is
        canonical and the same for the life of a connection. Nothing happens for an answer without batches.
        """
        if not bytes:
            return
        place = (host, client_id, topic, partition)
        current: _Current | None = connection.settled.get(place)
        if current is None or now_ms > current.until_ms or current.version != self.table.version(host, client_id):
            current = self._judge(connection, host, client_id, topic, partition, fetch_offset, now_ms)
            connection.settled[place] = current
        verdict = current.verdict
        cell = current.cell
        sample = self._make_sample(
            ts_ms=now_ms,
            group=verdict.group,
            member_id=verdict.member_id,
            client_id=client_id,
            host=host,
            topic=topic,
            partition=partition,
            evidence=verdict.evidence.value,
            reason=None if cell is not None else Reason.PENDING.value,
            messages=messages,
            bytes=bytes,
            first_offset=first_offset,
            last_offset=last_offset,
        )
        if cell is None:
            handle = self._sink.add_pending(sample)
            current.total.messages += messages
            current.total.bytes += bytes
            entry = Pending(
                connection, host, client_id, topic, partition, fetch_offset, now_ms, verdict, messages, bytes, [handle]
            )
            self._close(self._ledger.add(entry))
            return
        self._sink.add(sample)
        current.total.messages += messages
        current.total.bytes += bytes
        cell.messages += messages
        cell.bytes += bytes

    def group_request(self, connection: ConnectionState, host: str, client_id: str | None, group: str) -> None:
        """A JoinGroup, SyncGroup, Heartbeat, OffsetCommit or OffsetFetch came in on that connection.

        FindCoordinator and admin requests must not be reported: they are sent for other people's groups (spec F11).
        """
        if connection.saw_group(client_id, group):
            self._close(self._ledger.changed(((host, client_id),)))

    def statements(self, statements: Iterable[Statement], now_ms: int) -> None:
        """Take in what coordinators said, and settle what waited for it."""
        changed: set[Key] = set()
        for statement in statements:
            changed |= self.table.apply(statement, now_ms)
        self._close(self._ledger.changed(changed))

    def replace(
        self,
        offsets_partition: int,
        epoch: int,
        registrations: Iterable[Registration],
        now_ms: int,
        *,
        sequence: int | None = None,
    ) -> None:
        """Take in a coordinator's snapshot (:meth:`RegistrationTable.replace`), and settle what waited for it."""
        changed = self.table.replace(offsets_partition, epoch, registrations, now_ms, sequence=sequence)
        self._close(self._ledger.changed(changed))

    def settle(self, now_ms: int) -> None:
        """Give up what has waited too long, and forget old tenures. Call it about once a second."""
        self._close(self._ledger.settle(now_ms))
        self.table.prune(now_ms)

    def close(self) -> None:
        """Settle all that waits as it stands. Before the sink is closed."""
        self._close(self._ledger.close())

    def totals(self) -> Mapping[tuple[str, int], Amount]:
        """What was sent, by (topic, partition)."""
        return {place: cell.amount() for place, cell in self._totals.items()}

    def settled(self) -> Mapping[Series, Amount]:
        """What has its final label, by group or reason."""
        return {series: cell.amount() for series, cell in self._cells.items() if cell.bytes}

    def pending(self) -> Mapping[tuple[str, int], Amount]:
        """What still waits for evidence, by (topic, partition)."""
        return self._ledger.pending()

    def registrations(self) -> int:
        """How many registrations hold now."""
        return len(self.table)

    def _judge(
        self,
        connection: ConnectionState,
        host: str,
        client_id: str | None,
        topic: str,
        partition: int,
        fetch_offset: int,
        now_ms: int,
    ) -> _Current:
        connection.saw_client(client_id)
        verdict = attribute(self.table, connection, host, client_id, topic, partition, fetch_offset, now_ms)
        connection.remember(client_id, topic, partition, verdict, now_ms)
        slot = self.table.slot(host, client_id)
        until_ms = FOREVER_MS if slot is None else slot.constant_until_ms(now_ms)
        total = self._totals.get((topic, partition))
        if total is None:
            total = self._totals[topic, partition] = _Cell()
        cell = None if verdict.group is None else self._cell(verdict, topic, partition)
        return _Current(self.table.version(host, client_id), until_ms, verdict, total, cell)

    def _cell(self, verdict: Verdict, topic: str, partition: int) -> _Cell:
        series = (verdict.group, verdict.reason, verdict.evidence, topic, partition)
        cell = self._cells.get(series)
        if cell is None:
            cell = self._cells[series] = _Cell()
        return cell

    def _close(self, settlements: list[Settlement]) -> None:
        for settlement in settlements:
            entry = settlement.entry
            cell = self._cell(settlement.verdict, entry.topic, entry.partition)
            cell.messages += entry.messages
            cell.bytes += entry.bytes
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
