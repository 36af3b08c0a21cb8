"""The comparison of the audit: what commits imply against what was sent, per group and partition. Pure.

A round consists of :meth:`Books.take_steps`, then :meth:`Books.take_runs` (collected later, so the runs include what
was committed), :meth:`Books.queries` for the logs, and :meth:`Books.settle` with their responses. What needs a log
that does not respond is kept for a later round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from muster.actors.audit import spans
from muster.actors.audit.commits import CommitKey, Step
from muster.actors.audit.members import Members
from muster.actors.audit.report import Row
from muster.actors.audit.sends import Run, SendKey
from muster.actors.audit.series import Evidence, Memory, Series, remember, remembered
from muster.actors.audit.spans import Spans
from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition

EVIDENCE_MS = 3_600_000
"""How long offsets that were sent without attribution, or twice, may explain a later commit."""
IDLE_MS = 24 * 3_600_000
"""Time without steps and runs after which a group's partition is forgotten."""
MAX_SERIES = 50_000


@dataclass(slots=True)
class _Place:
    """A topic's partition, with all groups that read it."""

    groups: dict[str, Series] = field(default_factory=dict)
    unattributed: Memory = field(default_factory=list)
    """Offsets sent without attribution."""
    unknown_below: int = 0
    """Offsets below this may have been sent before counting began, or by a gateway that was lost before it reported."""

    def edges(self) -> Iterator[int]:
        """Every offset whose cumulative size may be needed."""
        for series in self.groups.values():
            if series.busy:
                yield from series.edges()
        memories = (self.unattributed, *(series.again for series in self.groups.values()))
        yield from (edge for memory in memories for _, offsets in memory for span in offsets for edge in span)
        yield self.unknown_below

    @property
    def busy(self) -> bool:
        return any(series.busy for series in self.groups.values())


class Books:
    """``wait_ms``: how long attributions may be pending; no gap is judged earlier. Times are ms since the epoch."""

    def __init__(self, wait_ms: int, most_series: int = MAX_SERIES) -> None:
        self._wait_ms = wait_ms
        self._most_series = most_series
        self._count = 0
        self._places: defaultdict[TopicPartition, dict[UUID, _Place]] = defaultdict(dict)
        """By id of the topic: a topic may have been deleted and created again."""
        self._there: set[TopicPartition] = set()
        self._is_lost = True
        self._ends_wanted: set[TopicPartition] = set()
        self.left_out = 0
        """How often there was no room for a group's partition."""

    def take_steps(self, entries: Mapping[CommitKey, Iterable[Step]], now_ms: int) -> None:
        """Add what one coordinator saw since the last request to it."""
        for (group, topic, topic_id, partition), steps in entries.items():
            place = self._places[topic, partition].setdefault(topic_id, _Place())
            if (series := self._series(place, group, now_ms)) is not None:
                series.steps.extend(steps)

    def take_runs(self, entries: Mapping[SendKey, Iterable[Run]], now_ms: int) -> None:
        """Add what one gateway sent since the last request to it."""
        for (group, topic, topic_id, partition), runs in entries.items():
            place = self._places[topic, partition].setdefault(topic_id, _Place())
            if group is None:
                remember(place.unattributed, now_ms, _covered(runs))
            elif (series := self._series(place, group, now_ms)) is not None:
                series.runs.extend(runs)

    def lost_count(self) -> None:
        """Note that sends until now may be missing in the counts: at the start, and after a gateway was lost."""
        self._is_lost = True

    def in_doubt(self) -> Collection[str]:
        """Return the groups whose times with members :meth:`settle` needs."""
        found: set[str] = set()
        for _, known in self._all():
            found.update(group for group, series in known.groups.items() if series.is_in_doubt)
        return found

    def queries(self, there: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
        """Offsets whose sizes :meth:`settle` needs. ``there``: all partitions that exist now."""
        gone, self._there = self._there, set(there)
        for place in gone - self._there:
            self._forget(self._places.pop(place, {}).values())
        if self._is_lost:
            self._is_lost, self._ends_wanted = False, set(self._there)
        self._ends_wanted &= self._there
        busy = {place for place, known in self._all() if known.busy} & self._there
        offsets = {
            place: tuple(sorted({edge for known in self._places[place].values() for edge in known.edges()}))
            for place in sorted(busy)
        }
        return offsets | dict.fromkeys(sorted(self._ends_wanted - busy), ())

    def settle(
        self,
        cumulative_sizes: Mapping[TopicPartition, CumulativeSizes],
        members: Members,
        now_ms: int,
        *,
        complete: bool,
    ) -> None:
        """Count what was added, and judge what has waited for long enough.

        ``cumulative_sizes`` are for :meth:`queries`, ``members`` for :meth:`in_doubt`. ``complete``: every gateway and
        coordinator responded; otherwise nothing is judged.
        """
        for place, cumulative_size in cumulative_sizes.items():
            known = self._see(place, cumulative_size)
            for group, series in known.groups.items():
                if series.busy:
                    evidence = partial(_evidence, known, group, now_ms - EVIDENCE_MS)
                    series.settle(cumulative_size, evidence, now_ms, self._wait_ms, complete, members.get(group))
        self._prune(now_ms)

    def rows(self) -> list[Row]:
        """Return a row for every group's partition with any counts, sorted."""
        found = []
        for (topic, partition), known in self._all():
            for group, series in known.groups.items():
                if (row := series.row(group, topic, partition)) is not None:
                    found.append(row)
        return sorted(found, key=lambda row: (row.group, row.topic, row.partition))

    def _all(self) -> Iterator[tuple[TopicPartition, _Place]]:
        for place, by_id in self._places.items():
            for known in by_id.values():
                yield place, known

    def _series(self, place: _Place, group: str, now_ms: int) -> Series | None:
        series = place.groups.get(group)
        if series is None:
            if self._count >= self._most_series:
                self.left_out += 1
                return None
            self._count += 1
            series = place.groups[group] = Series()
        series.last_ms = now_ms
        return series

    def _see(self, place: TopicPartition, cumulative_size: CumulativeSizes) -> _Place:
        """Drop earlier topics of that name: the log was queried last, so its topic is the newest."""
        by_id = self._places[place]
        known = by_id.pop(cumulative_size.topic_id, None) or _Place()
        self._forget(by_id.values())
        self._places[place] = {cumulative_size.topic_id: known}
        if place in self._ends_wanted:
            self._ends_wanted.discard(place)
            known.unknown_below = cumulative_size.end_offset
        return known

    def _forget(self, gone: Iterable[_Place]) -> None:
        self._count -= sum(len(known.groups) for known in gone)

    def _prune(self, now_ms: int) -> None:
        empty = set()
        for place, known in self._all():
            idle = [group for group, series in known.groups.items() if series.last_ms + IDLE_MS < now_ms]
            for group in idle:
                del known.groups[group]
            self._count -= len(idle)
            while known.unattributed and known.unattributed[0][0] + EVIDENCE_MS < now_ms:
                del known.unattributed[0]
            if not known.groups and not known.unattributed and place not in self._there:
                empty.add(place)
        for place in empty:
            del self._places[place]


def _evidence(place: _Place, group: str, since_ms: int) -> Evidence:
    twice: Spans = ()
    for name, other in place.groups.items():
        if name != group:
            twice = spans.union(twice, remembered(other.again, since_ms))
    return Evidence(remembered(place.unattributed, since_ms), twice, place.unknown_below)


def _covered(runs: Iterable[Run]) -> Spans:
    found: Spans = ()
    for run in runs:
        found = spans.union(found, spans.of(run.first, run.end))
    return found
