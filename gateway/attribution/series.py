"""The running totals of one gateway, by group or by reason: bounded in number, without groups that are gone.

A group id is a label that clients choose, so its length and the number of series must be bounded where they are
exposed: see :func:`group_label`, and ``max_group_series`` of :class:`SeriesBook`. What has no series of its own is
still counted: for each (topic, partition), all that was ever added is in exactly one of ``groups``, ``reasons``,
``overflow`` and ``removed``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from hashlib import blake2b

from muster.gateway.attribution.verdict import Evidence, Reason, Verdict

MAX_GROUP_SERIES = 10_000
RETENTION_MS = 900_000
MAX_GROUP_CHARS = 255
MAX_PRINCIPAL_SERIES = 10_000
_HASH_BYTES = 8

Place = tuple[str, int]
"""Topic, partition."""
GroupSeries = tuple[str, Evidence, str, int]
"""Group, evidence, topic, partition."""
ReasonSeries = tuple[Reason, str, int]
PrincipalSeries = tuple[str, str]
"""Principal, topic."""
OTHER_PRINCIPALS = ""
"""In place of the principals beyond MAX_PRINCIPAL_SERIES."""


def group_label(group: str) -> str:
    """Return the group id as a label; beyond MAX_GROUP_CHARS it is cut and ends with ``~`` and a hash of the whole id.

    A cut label is longer than any uncut id, so no group id can equal it. Lone surrogates, which no text format can
    carry, become backslash escapes.
    """
    text = group.encode(errors="backslashreplace").decode()
    if len(text) <= MAX_GROUP_CHARS:
        return text
    digest = blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest()
    return f"{text[:MAX_GROUP_CHARS]}~{digest}"


class Cell:
    """A running total that bytes are added to."""

    __slots__ = ("bytes", "entries", "messages", "since_ms")

    def __init__(self, since_ms: int = 0) -> None:
        self.since_ms = since_ms
        self.messages = 0
        self.bytes = 0
        self.entries = 0

    def add(self, messages: int, size_bytes: int, entries: int) -> None:
        self.messages += messages
        self.bytes += size_bytes
        self.entries += entries

    def total(self) -> Total:
        return Total(self.messages, self.bytes, self.entries, self.since_ms)


@dataclass(frozen=True, slots=True)
class Total:
    """The content of a cell at one moment."""

    messages: int
    bytes: int
    entries: int
    """Record batches."""
    since_ms: int
    """When it began at 0; ms since the epoch."""


class PrincipalBook:
    """Cells by principal and topic, which are kept. Principals are as many as the users that can log in."""

    def __init__(self, max_series: int = MAX_PRINCIPAL_SERIES) -> None:
        self._max_series = max_series
        self.cells: dict[PrincipalSeries, Cell] = {}

    def cell(self, principal: str, topic: str, now_ms: int) -> Cell:
        """Return the cell of that principal; beyond the limit, that of the topic's other principals."""
        found = self.cells.get((principal, topic))
        if found is None:
            if len(self.cells) >= self._max_series:
                principal = OTHER_PRINCIPALS
            found = self.cells.setdefault((principal, topic), Cell(now_ms))
        return found


class _Group:
    """The series of one group; they are added one by one and removed together."""

    __slots__ = ("cells", "used_ms")

    def __init__(self) -> None:
        self.cells: dict[tuple[Evidence, str, int], Cell] = {}
        self.used_ms = 0


class SeriesBook:
    """Cells by verdict, topic and partition. ``now_ms`` is one clock that never goes back.

    A cell may be used for :attr:`lease_ms` after :meth:`cell` returned it, not longer: it may then have been removed.
    """

    def __init__(self, *, max_group_series: int = MAX_GROUP_SERIES, retention_ms: int = RETENTION_MS) -> None:
        self._max_group_series = max_group_series
        self._retention_ms = retention_ms
        self._groups: dict[str, _Group] = {}
        self._group_series = 0
        self._reasons: dict[ReasonSeries, Cell] = {}
        self._overflow: dict[Place, Cell] = {}
        self._removed: dict[Place, Cell] = {}
        self._folded: dict[GroupSeries, int] = {}
        self._next_look_ms = 0

    @property
    def lease_ms(self) -> int:
        """For how long a cell may be used without calling :meth:`cell` again."""
        return self._retention_ms // 2

    @property
    def folded(self) -> int:
        """The number of group series that the limit excludes; at most ``max_group_series`` are counted."""
        return len(self._folded)

    def cell(self, verdict: Verdict, topic: str, partition: int, now_ms: int) -> Cell:
        """Return the cell of bytes with that verdict: a series of its own, or the overflow of the partition."""
        if verdict.group is None:
            reason = verdict.reason or Reason.UNKNOWN
            return self._reasons.setdefault((reason, topic, partition), Cell(now_ms))
        name = (verdict.evidence, topic, partition)
        group = self._groups.get(verdict.group)
        cell = None if group is None else group.cells.get(name)
        if cell is None and self._group_series >= self._max_group_series:
            return self._fold((verdict.group, *name), now_ms)
        if group is None:
            group = self._groups[verdict.group] = _Group()
        group.used_ms = max(group.used_ms, now_ms)
        if cell is None:
            cell = group.cells[name] = Cell(now_ms)
            self._group_series += 1
            self._folded.pop((verdict.group, *name), None)
        return cell

    def retire(self, registered: Callable[[], Set[str]], now_ms: int) -> None:
        """Remove the series of groups that are not registered and got no cell for the retention time.

        Checks at most a few times in that time, and calls ``registered`` only if it must.
        """
        if now_ms < self._next_look_ms:
            return
        self._next_look_ms = now_ms + self._retention_ms // 8
        before_ms = now_ms - self._retention_ms
        idle = [name for name, group in self._groups.items() if group.used_ms < before_ms]
        alive = registered() if idle else frozenset()
        for name in idle:
            if name in alive:
                self._groups[name].used_ms = now_ms
            else:
                self._remove(self._groups.pop(name))
        self._folded = {series: used_ms for series, used_ms in self._folded.items() if used_ms >= before_ms}

    def groups(self) -> Iterator[tuple[GroupSeries, Cell]]:
        for name, group in self._groups.items():
            for (evidence, topic, partition), cell in group.cells.items():
                yield (name, evidence, topic, partition), cell

    def reasons(self) -> Mapping[ReasonSeries, Cell]:
        return self._reasons

    def overflow(self) -> Mapping[Place, Cell]:
        """Bytes of groups beyond ``max_group_series``."""
        return self._overflow

    def removed(self) -> Mapping[Place, Cell]:
        """Bytes of series that were removed."""
        return self._removed

    def _fold(self, series: GroupSeries, now_ms: int) -> Cell:
        if series in self._folded or len(self._folded) < self._max_group_series:
            self._folded[series] = now_ms
        return self._overflow.setdefault((series[2], series[3]), Cell(now_ms))

    def _remove(self, group: _Group) -> None:
        self._group_series -= len(group.cells)
        for (_, topic, partition), cell in group.cells.items():
            self._removed.setdefault((topic, partition), Cell(cell.since_ms)).add(
                cell.messages, cell.bytes, cell.entries
            )
