"""Records: acknowledged ones keep their place, reach every group, and nothing else appears."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.history import History, Place


def acknowledged_is_kept(history: History) -> Iterator[str]:
    """Require an acknowledged record to be in the log at the end, at the offset that its producer got."""
    at = {place: dict(records) for place, records in history.final.items()}
    names = {place: set(records.values()) for place, records in at.items()}
    for acked in history.acked:
        if acked.offset < 0:
            kept = acked.name in names.get(acked.place, ())
        else:
            kept = at.get(acked.place, {}).get(acked.offset) == acked.name
        if not kept:
            found = at.get(acked.place, {}).get(acked.offset, "nothing")
            yield f"{_at(acked.place, acked.offset)} was acknowledged as {acked.name} and holds {found} at the end"


def offsets_are_stable(history: History) -> Iterator[str]:
    """Every reader finds the same record at an offset, at any time."""
    seen: dict[tuple[Place, int], str] = {
        (place, offset): name for place, records in history.final.items() for offset, name in records
    }
    for read in history.reads:
        if (before := seen.setdefault((read.place, read.offset), read.name)) != read.name:
            yield f"{_at(read.place, read.offset)} was {read.name} to {read.worker} and {before} to another reader"


def nothing_else_appears(history: History) -> Iterator[str]:
    """Each record that is read was sent to that partition."""
    sent: dict[tuple[str, Place], int] = {}
    for entry in history.sent:
        sent[entry.producer, entry.place] = max(entry.last, sent.get((entry.producer, entry.place), -1))
    records = {(read.place, read.name) for read in history.reads}
    records |= {(place, name) for place, found in history.final.items() for _, name in found}
    for place, name in sorted(records):
        producer, _, number = name.rpartition(":")
        if not number.isdigit() or int(number) > sent.get((producer, place), -1):
            yield f"{place[0]}-{place[1]} has {name[:80]!r}, which no producer sent"


def every_group_reads_everything(history: History) -> Iterator[str]:
    """Require each group to read each acknowledged record of its topics at least once."""
    read: dict[str, set[tuple[Place, str]]] = defaultdict(set)
    for record in history.reads:
        read[record.group].add((record.place, record.name))
    for group, topics in history.groups.items():
        for acked in history.acked:
            if acked.place[0] in topics and (acked.place, acked.name) not in read[group]:
                yield f"{group} never read {acked.name}, acknowledged at {_at(acked.place, acked.offset)}"


def idempotent_order(history: History) -> Iterator[str]:
    """Require each record of an idempotent producer at most once in a partition, in the order of sending."""
    producers = {entry.producer for entry in history.sent if history.lives[_worker(entry.producer)].idempotent}
    for place, records in sorted(history.final.items()):
        last: dict[str, int] = {}
        for offset, name in sorted(records):
            producer, _, number = name.rpartition(":")
            if producer not in producers or not number.isdigit():
                continue
            if int(number) <= last.get(producer, -1):
                yield f"{_at(place, offset)} has {name} after {producer}:{last[producer]}"
            last[producer] = int(number)


def no_gaps(history: History) -> Iterator[str]:
    """Offsets of a partition that is never shortened increase from 0 by one, if it has no transactions."""
    for place, records in sorted(history.final.items()):
        if place[0] in history.transactional:
            continue
        offsets = sorted(offset for offset, _ in records)
        for expected, offset in enumerate(offsets):
            if offset != expected:
                yield f"{_at(place, offset)} stands where offset {expected} should be"
                break


def _worker(producer: str) -> str:
    return producer.partition("/")[0]


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]}@{offset}"
