"""The effect of a reset of offsets, partition by partition, and in words. Pure: sends no requests, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from muster.actors.runtime.words import counted
from muster.gateway.client.groups.offsets import Committed, Partition, name_of

_NAMED = 5
_LISTED = 20
"""Partitions in a proposed --topic, at most."""


class Bounds(NamedTuple):
    """The first and end offset of a partition's log."""

    earliest: int
    latest: int


class CannotReset(ValueError):
    """Raised for a partition without a new offset; the message has the reason."""


Choice = Callable[[Partition, int | None, Bounds], tuple[int, str | None]]
"""Returns the new offset for a partition with this committed offset (None: there is none) and these bounds, and a
remark on it. Raises CannotReset."""


def to_earliest(_: Partition, __: int | None, bounds: Bounds) -> tuple[int, str | None]:
    return bounds.earliest, None


def to_latest(_: Partition, __: int | None, bounds: Bounds) -> tuple[int, str | None]:
    return bounds.latest, None


def to_current(_: Partition, current: int | None, bounds: Bounds) -> tuple[int, str | None]:
    """Return the committed offset; if there is none, the end, as in kafka-consumer-groups."""
    return (bounds.latest, "no offset was committed: to the end") if current is None else (current, None)


def to_offset(offset: int) -> Choice:
    return lambda _, __, ___: (offset, None)


def shift_by(count: int) -> Choice:
    def choose(partition: Partition, current: int | None, _: Bounds) -> tuple[int, str | None]:
        if current is None:
            raise CannotReset(f"{name_of(partition)} has no committed offset to shift")
        return current + count, None

    return choose


def to_time(found: Mapping[Partition, int | None]) -> Choice:
    """Return a choice by time. ``found``: the first offset at or after it; None if the log has no record that late."""

    def choose(partition: Partition, _: int | None, bounds: Bounds) -> tuple[int, str | None]:
        offset = found[partition]
        return (bounds.latest, "no record that late: to the end") if offset is None else (offset, None)

    return choose


def to_listed(offsets: Mapping[Partition, int]) -> Choice:
    return lambda partition, _, __: (offsets[partition], None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    partition: Partition
    before: Committed | None
    """None if nothing was committed."""
    after: Committed | None
    """None if the committed offset is removed."""
    read_again: int | None
    """Messages; None if it depends on auto.offset.reset, since nothing is committed before or after."""
    skipped: int | None
    note: str | None = None

    @property
    def is_one(self) -> bool:
        """Whether the result differs."""
        return (self.before and self.before.offset) != (self.after and self.after.offset)

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.partition[0],
            "partition": self.partition[1],
            "old_offset": self.before.offset if self.before else None,
            "offset": self.after.offset if self.after else None,
            "read_again": self.read_again,
            "skipped": self.skipped,
            "note": self.note,
        }


def plan(
    choice: Choice,
    partitions: Iterable[Partition],
    committed: Mapping[Partition, Committed],
    bounds: Mapping[Partition, Bounds],
) -> list[Change]:
    """Return changes by topic and partition; new offsets are kept within the log, as in kafka-consumer-groups.

    Raises CannotReset.
    """
    return [_change(choice, partition, committed.get(partition), bounds[partition]) for partition in sorted(partitions)]


def _change(choice: Choice, partition: Partition, before: Committed | None, bounds: Bounds) -> Change:
    wanted, note = choice(partition, before.offset if before else None, bounds)
    offset = _within(wanted, bounds)
    if offset != wanted:
        end = "before the earliest" if wanted < bounds.earliest else "beyond the latest"
        note = f"{wanted} is {end} offset"
    return _counted(partition, before, Committed(offset), bounds, note)


def restoration(
    before: Mapping[Partition, Committed | None],
    committed: Mapping[Partition, Committed],
    bounds: Mapping[Partition, Bounds],
) -> list[Change]:
    """Restore exactly what was, wherever logs begin and end now; partitions that no longer exist are left out."""
    return [
        _counted(partition, committed.get(partition), before[partition], bounds[partition], None)
        for partition in sorted(before.keys() & bounds.keys())
    ]


def _counted(
    partition: Partition, before: Committed | None, after: Committed | None, bounds: Bounds, note: str | None
) -> Change:
    read_again = skipped = None
    if before is not None and after is not None:
        moved = _within(after.offset, bounds) - _within(before.offset, bounds)
        read_again, skipped = max(-moved, 0), max(moved, 0)
    return Change(partition=partition, before=before, after=after, read_again=read_again, skipped=skipped, note=note)


def _within(offset: int, bounds: Bounds) -> int:
    return min(max(offset, bounds.earliest), bounds.latest)


def totals(changes: Iterable[Change]) -> tuple[int, int]:
    """Count messages that are read again and messages that are skipped, where known."""
    all_of_them = list(changes)
    return sum(change.read_again or 0 for change in all_of_them), sum(change.skipped or 0 for change in all_of_them)


def effect(changes: Sequence[Change], *, executed: bool) -> str:
    """Return in words how many messages are read again and skipped, and where this is not known."""
    read_again, skipped = totals(changes)
    unknown = sum(change.read_again is None for change in changes)
    will = "will be" if executed else "would be"
    known = f"{counted(read_again, 'message')} {will} read again, {skipped} skipped"
    if not unknown:
        return known
    why = "where nothing is committed, it depends on auto.offset.reset"
    if unknown == len(changes):
        return f"it is unknown how many messages {will} read again or skipped: {why}"
    return f"{known}, unknown in {counted(unknown, 'partition')}: {why}"


def remarks(changes: Iterable[Change]) -> list[str]:
    """Return a line for each different note, with its partitions."""
    noted: dict[str, list[Partition]] = {}
    for change in changes:
        if change.note:
            noted.setdefault(change.note, []).append(change.partition)
    return [f"{named(partitions)}: {note}" for note, partitions in noted.items()]


def without(wanted: Iterable[Partition], committed: Collection[Partition]) -> str:
    """Return how to leave out what has no committed offset; empty if nothing would be left."""
    left: dict[str, list[int]] = {}
    for topic, partition in sorted(key for key in wanted if key in committed):
        left.setdefault(topic, []).append(partition)
    if not left:
        return ""
    if sum(map(len, left.values())) > _LISTED:
        return "; --all-topics takes only partitions that have one"
    options = (f"--topic {topic}:{','.join(map(str, partitions))}" for topic, partitions in left.items())
    return f"; leave it out: {' '.join(options)}"


def named(partitions: Collection[Partition]) -> str:
    """List the names of the first partitions, and the number of the others."""
    names = [name_of(partition) for partition in partitions]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
