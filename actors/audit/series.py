"""One group's partition in the audit: the offsets sent for it, and the offsets that its commits went past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from muster.actors.audit import spans
from muster.actors.audit.commits import Step
from muster.actors.audit.doubts import Doubt, Doubts
from muster.actors.audit.members import Period
from muster.actors.audit.report import MORE, Cause, Row
from muster.actors.audit.sends import Run
from muster.actors.audit.spans import Spans
from muster.actors.log.cumulative_size import CumulativeSizes

MAX_SPANS = 64
"""Maximum number of spans of one kind in one series; beyond it the lowest are forgotten."""
_TOGETHER_MS = 300_000

Memory = list[tuple[int, Spans]]
"""Offsets that something happened to, and when, ms since the epoch; grouped into periods of some minutes."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for or against an explanation, for one partition."""

    unattributed: Spans
    """Sent without attribution."""
    twice_by_others: Spans
    """Sent to another group more than once, or after it had committed past them."""
    unknown_below: int


@dataclass(slots=True)
class _Gap:
    """Offsets that were committed past, but not sent for the group as far as is known."""

    since_ms: int
    cause: Cause
    """The cause unless evidence supports another."""
    offsets: Spans


@dataclass(slots=True)
class _Opening:
    """The first commit of a partition: it shows where the group is, but not where it began."""

    since_ms: int
    offset: int
    by_member: bool


@dataclass(slots=True)
class Series:
    """See :mod:`muster.actors.audit` for what the causes mean."""

    steps: list[Step] = field(default_factory=list)
    """Not counted yet, like ``runs``."""
    runs: list[Run] = field(default_factory=list)
    sent: Spans = ()
    """Offsets that were sent for the group, or judged why they were not."""
    committed: Spans = ()
    again: Memory = field(default_factory=list)
    """Offsets sent again, or in doubt."""
    last_ms: int = 0
    _last_offset: int | None = None
    _last_commit_ms: int = 0
    _doubts: Doubts = field(default_factory=Doubts)
    _gaps: list[_Gap] = field(default_factory=list)
    _openings: list[_Opening] = field(default_factory=list)
    _floor: int = 0
    """Below this offset, spans were forgotten."""
    _implied_bytes: int = 0
    _attributed_bytes: int = 0
    _reread_bytes: int = 0
    _now: Counter[Cause] = field(default_factory=Counter)
    """Current values."""
    _judged: Counter[Cause] = field(default_factory=Counter)
    _removed_offsets: int = 0

    @property
    def busy(self) -> bool:
        """Whether there is something to count, or to judge."""
        return bool(self.steps or self.runs or self._gaps or self._openings or self._doubts.wait)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it matters when the group had members."""
        return self._doubts.wait

    def edges(self) -> Iterator[int]:
        """Every offset at which a span may begin or end in any set that :meth:`settle` computes."""
        for step in self.steps:
            yield step.offset
            if step.before is not None:
                yield step.before
        if self._last_offset is not None:
            yield self._last_offset
        for run in self.runs:
            yield from (run.first, run.end)
        for offsets in (self.sent, self.committed, *(gap.offsets for gap in self._gaps)):
            for span in offsets:
                yield from span
        for opening in self._openings:
            yield opening.offset
        yield from self._doubts.edges()
        yield from (0, self._floor)

    def settle(
        self,
        cumulative_sizes: CumulativeSizes,
        evidence: Callable[[], Evidence],
        now_ms: int,
        wait_ms: int,
        complete: bool,
        members: Collection[Period] | None,
    ) -> None:
        """Count what was added; if ``complete``, judge what has waited for longer than ``wait_ms``.

        ``members``: when the group had members; None if that is unknown now.
        """
        counted = [
            (run.at_ms, self._count_run(run, cumulative_sizes, now_ms))
            for run in sorted(self.runs, key=lambda run: run.at_ms)
        ]
        self.runs.clear()
        for step in self.steps:
            self._count_step(step, cumulative_sizes, now_ms)
        self.steps.clear()
        for at_ms, (again, fresh) in counted:
            self._doubt(at_ms, again, fresh, cumulative_sizes, now_ms)
        ripe_ms = now_ms - wait_ms
        self._openings = [
            each for each in self._openings if not self._open(each, cumulative_sizes, evidence, ripe_ms, complete)
        ]
        for gap in self._gaps:
            self._look(gap, cumulative_sizes)
            if complete and gap.since_ms <= ripe_ms:
                self._judge(gap, cumulative_sizes, evidence)
        self._gaps = [gap for gap in self._gaps if gap.offsets]
        if complete and members is not None:
            self._was_reread(self._doubts.judge(members, now_ms, ripe_ms), cumulative_sizes)
        self._bound()
        self._measure(cumulative_sizes)

    def row(self, group: str, topic: str, partition: int) -> Row | None:
        """Return the report's row; None if nothing was counted yet."""
        drift = {cause: size for cause, size in (self._now + self._judged).items() if size}
        rest = self._attributed_bytes - self._implied_bytes - _signed(drift)
        if rest:
            drift[Cause.RETENTION] = rest
        if not (self._implied_bytes or self._attributed_bytes or drift or self._removed_offsets):
            return None
        return Row(group, topic, partition, self._implied_bytes, self._attributed_bytes, drift, self._removed_offsets)

    def _count_run(self, run: Run, cumulative_sizes: CumulativeSizes, now_ms: int) -> tuple[Spans, Spans]:
        """Count a run; returns the offsets that had been sent before, and those that had not."""
        offsets = spans.of(run.first, run.end)
        again = spans.common(offsets, self.sent)
        self._attributed_bytes += run.bytes
        if again:
            self._reread_bytes += _bytes(cumulative_sizes, again)
            remember(self.again, now_ms, again)
        self.sent = spans.union(self.sent, offsets)
        return again, spans.minus(offsets, again)

    def _doubt(self, at_ms: int, again: Spans, fresh: Spans, cumulative_sizes: CumulativeSizes, now_ms: int) -> None:
        """Doubt what was sent from below the committed offset, unless a commit has followed."""
        if self._last_offset is None or at_ms <= self._last_commit_ms:
            return
        again = spans.below(again, self._last_offset)
        behind = spans.below(spans.minus(fresh, self.committed), self._last_offset)
        if again or behind:
            behind_bytes = _bytes(cumulative_sizes, behind)
            self._doubts.add(Doubt(at_ms, now_ms, _bytes(cumulative_sizes, again) + behind_bytes, behind))
            self._reread_bytes += behind_bytes
            self.sent = spans.minus(self.sent, behind)
            remember(self.again, now_ms, behind)

    def _was_reread(self, explained: Iterable[Doubt], cumulative_sizes: CumulativeSizes) -> None:
        """Count these as sent to the group after all."""
        for doubt in explained:
            fresh = spans.minus(doubt.behind, self.sent)
            self._reread_bytes -= _bytes(cumulative_sizes, fresh)
            self.sent = spans.union(self.sent, fresh)

    def _count_step(self, step: Step, cumulative_sizes: CumulativeSizes, now_ms: int) -> None:
        """Count a step, and before it one for unreported commits, whose coordinator was lost."""
        self._was_reread(self._doubts.committed(step.at_ms), cumulative_sizes)
        before, last = step.before, self._last_offset
        if before is not None and last is not None and last < before:
            self._pass(last, before, Cause.UNKNOWN, cumulative_sizes, now_ms)
        if before is None:
            offset = min(step.offset, cumulative_sizes.end_offset)
            self._openings.append(_Opening(now_ms, offset, step.by_member))
        else:
            self._pass(
                before, step.offset, Cause.RESET if step.by_member else Cause.ADMIN_COMMIT, cumulative_sizes, now_ms
            )
        self._last_offset = step.offset
        self._last_commit_ms = max(self._last_commit_ms, step.at_ms)

    def _pass(self, first: int, end: int, cause: Cause, cumulative_sizes: CumulativeSizes, now_ms: int) -> None:
        """Count offsets passed by commits; those that were not sent are a gap."""
        fresh = spans.minus(spans.of(max(first, 0), min(end, cumulative_sizes.end_offset)), self.committed)
        if not fresh:
            return
        self._implied_bytes += _bytes(cumulative_sizes, fresh)
        self.committed = spans.union(self.committed, fresh)
        if missing := spans.minus(fresh, self.sent):
            self._gaps.append(_Gap(now_ms, cause, missing))

    def _open(
        self,
        opening: _Opening,
        cumulative_sizes: CumulativeSizes,
        evidence: Callable[[], Evidence],
        ripe_ms: int,
        complete: bool,
    ) -> bool:
        """Find out where the group began; True when that is settled.

        It began where the offsets sent for it up to that offset begin; if there are none, those sent without
        attribution.
        """
        last = opening.offset - 1
        is_ripe = complete and opening.since_ms <= ripe_ms
        run = spans.run_around(self.sent, last)
        if run is None and is_ripe and opening.by_member:
            run = spans.run_around(evidence().unattributed, last)
        if run is not None:
            cause = Cause.RESET if opening.by_member else Cause.ADMIN_COMMIT
            self._pass(
                self._beginning(run[0], cumulative_sizes), opening.offset, cause, cumulative_sizes, opening.since_ms
            )
        return is_ripe

    def _beginning(self, offset: int, cumulative_sizes: CumulativeSizes) -> int:
        """Where the offsets sent for the group up to ``offset`` begin, with nothing in the log between them."""
        for first, end in reversed(spans.below(self.sent, offset)):
            if _bytes(cumulative_sizes, spans.of(end, offset)):
                break
            offset = first
        return offset

    def _look(self, gap: _Gap, cumulative_sizes: CumulativeSizes) -> None:
        """Remove what was sent meanwhile and what the log does not have, as between batches after a compaction."""
        gap.offsets = spans.minus(gap.offsets, self.sent)
        empty = tuple(
            span
            for span in gap.offsets
            if span[0] >= cumulative_sizes.log_start_offset and not _bytes(cumulative_sizes, (span,))
        )
        self.sent = spans.union(self.sent, empty)
        gap.offsets = spans.minus(gap.offsets, empty)

    def _judge(self, gap: _Gap, cumulative_sizes: CumulativeSizes, evidence: Callable[[], Evidence]) -> None:
        removed = spans.below(gap.offsets, cumulative_sizes.log_start_offset)
        self._removed_offsets += sum(end - first for first, end in removed)
        left = spans.minus(gap.offsets, removed)
        known = evidence()
        unknown_below = max(known.unknown_below, self._floor)
        for cause, offsets in (
            (Cause.LOST, known.unattributed),
            (Cause.MISLABELLED_ELSEWHERE, known.twice_by_others),
            (Cause.UNKNOWN, spans.of(0, unknown_below)),
            (gap.cause, left),
        ):
            these = spans.common(left, offsets)
            self._judged[cause] += _bytes(cumulative_sizes, these)
            left = spans.minus(left, these)
        self.sent = spans.union(self.sent, gap.offsets)
        gap.offsets = ()

    def _bound(self) -> None:
        for offsets in (self.sent, self.committed):
            if len(offsets) > MAX_SPANS:
                self._floor = max(self._floor, offsets[-MAX_SPANS][0])
        if self._floor:
            self.sent, self.committed = self.sent[-MAX_SPANS:], self.committed[-MAX_SPANS:]

    def _measure(self, cumulative_sizes: CumulativeSizes) -> None:
        ahead = spans.minus(self.sent, self.committed)
        behind = spans.below(ahead, self.committed[-1][1]) if self.committed else ()
        mislabelled_bytes = self._doubts.mislabelled_bytes
        self._now = Counter(
            {
                Cause.PREFETCH: _bytes(cumulative_sizes, spans.minus(ahead, behind)),
                Cause.REREAD: _bytes(cumulative_sizes, behind) + self._reread_bytes - mislabelled_bytes,
                Cause.MISLABELLED: mislabelled_bytes,
                Cause.WAITING: sum(_bytes(cumulative_sizes, gap.offsets) for gap in self._gaps),
            }
        )


def remember(memory: Memory, now_ms: int, offsets: Spans) -> None:
    """Add these offsets to the memory as of now."""
    if memory and now_ms - memory[-1][0] < _TOGETHER_MS:
        at_ms, known = memory.pop()
        now_ms, offsets = at_ms, spans.union(known, offsets)
    memory.append((now_ms, offsets[-MAX_SPANS:]))


def remembered(memory: Memory, since_ms: int) -> Spans:
    """Return the offsets that were remembered since then."""
    found: Spans = ()
    for at_ms, offsets in memory:
        if at_ms > since_ms:
            found = spans.union(found, offsets)
    return found


def _signed(drift: dict[Cause, int]) -> int:
    return sum(size if cause in MORE else -size for cause, size in drift.items())


def _bytes(cumulative_sizes: CumulativeSizes, offsets: Spans) -> int:
    """Bytes of the batches whose last offset is in the spans."""
    before = cumulative_sizes.bytes_before
    return sum(before[end] - before[first] for first, end in offsets)
