"""A partition made of batches, and an account that gets what is sent and committed; times are rounds of a second."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from muster.actors.audit.books import Books
from muster.actors.audit.commits import Step
from muster.actors.audit.members import Period
from muster.actors.audit.report import Cause, Row
from muster.actors.audit.sends import Run
from muster.actors.log.cumulative_size import CumulativeSizes

G = TypeVar("G")

PLACE = ("t", 0)
WAIT_MS = 60_000
Batch = tuple[int, int, int]
"""First offset, end, bytes."""


def batches(count: int, *, records: int = 10, size_bytes: int = 100) -> list[Batch]:
    return [(number * records, (number + 1) * records, size_bytes) for number in range(count)]


class World:
    """One round is :meth:`round`; :meth:`send` and :meth:`commit` happen before it."""

    def __init__(self, log: list[Batch], *, begun: bool = True) -> None:
        """``begun``: the audit began before the partition held anything."""
        self.log = log
        self.log_start_offset = 0
        self.topic_id = UUID(int=1)
        self.books = Books(WAIT_MS)
        self.now_ms = 1_000_000
        self.members: dict[str, list[Period] | None] = {}
        """When groups had members: never, unless it says so. None: the coordinator does not respond."""
        self._committed: dict[str, int] = {}
        self.round(end_offset=0 if begun else None)

    def measure(self, offsets: tuple[int, ...], end_offset: int | None = None) -> CumulativeSizes:
        end = self.log[-1][1] if end_offset is None else end_offset

        def before(offset: int) -> int:
            offset = min(max(offset, self.log_start_offset), end)
            return sum(size for _, batch_end, size in self.log if batch_end <= offset)

        measured = {*offsets, self.log_start_offset, end}
        return CumulativeSizes(
            self.topic_id, self.log_start_offset, end, {offset: before(offset) for offset in measured}
        )

    def send(
        self, first: int, end: int, group: str | None = "g", *, at_ms: int | None = None, topic_id: UUID | None = None
    ) -> int:
        """Send the whole batches with [first, end) to a client that fetches from ``first``; return its next offset.

        ``at_ms``: when that was, unless it is now. ``topic_id``: of an earlier topic with that name.
        """
        sent = [batch for batch in self.log if batch[1] > first and batch[0] < end]
        run = Run(max(first, sent[0][0]), sent[-1][1], sum(size for _, _, size in sent), at_ms or self._tick())
        self.books.take_runs({self._key(group, topic_id): (run,)}, self.now_ms)
        return run.end

    def commit(
        self,
        offset: int,
        group: str = "g",
        *,
        by_member: bool = True,
        reported: bool = True,
        topic_id: UUID | None = None,
    ) -> None:
        before = self._committed.get(group)
        self._committed[group] = offset
        if reported:
            self.books.take_steps(
                {self._key(group, topic_id): (Step(before, offset, by_member, self._tick()),)}, self.now_ms
            )

    def _key(self, group: G, topic_id: UUID | None) -> tuple[G, str, UUID, int]:
        topic, partition = PLACE
        return group, topic, topic_id or self.topic_id, partition

    def _tick(self) -> int:
        """Advance the time by 1 ms."""
        self.now_ms += 1
        return self.now_ms

    def round(self, *, complete: bool = True, end_offset: int | None = None, answered: bool = True) -> None:
        queries = self.books.queries([PLACE])
        cumulative_sizes = (
            {place: self.measure(offsets, end_offset) for place, offsets in queries.items()} if answered else {}
        )
        wanted = {group: self.members.get(group, []) for group in self.books.in_doubt()}
        members = {group: periods for group, periods in wanted.items() if periods is not None}
        self.books.settle(cumulative_sizes, members, self.now_ms, complete=complete)
        self.now_ms += 1_000

    def judged(self) -> None:
        """Everything pending has waited long enough."""
        self.round()
        self.now_ms += WAIT_MS
        self.round()

    def row(self, group: str = "g") -> Row:
        [row] = [row for row in self.books.rows() if row.group == group]
        return row

    def drift(self, group: str = "g") -> dict[Cause, int]:
        return self.row(group).drift_bytes
