"""Faults of a pool, by what its processes wrote. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.pools.journal import Batch, Death, History, Record


@dataclass(frozen=True, slots=True)
class Owners:
    """The group at one moment, as its coordinator describes it."""

    at_s: float
    members: Mapping[str, str]
    """``client.id`` of each member id."""
    partitions: Mapping[int, str]
    """The member id that has each partition; empty during a rebalance."""


@dataclass(frozen=True, slots=True)
class Handled:
    """Records of a topic, by the number of times that they were handled."""

    lost: frozenset[Record]
    """Never handled."""
    twice_in_flight: frozenset[Record]
    """Handled more than once, as at least once allows: they were in a batch that a kill interrupted."""
    twice: frozenset[Record]
    """Handled more than once, and no kill explains it."""


def handled(history: History, ends: Mapping[int, int]) -> Handled:
    """Return what became of the records; ``ends``: the end of each partition's log, which begins at 0."""
    by_record: dict[Record, list[Batch]] = {}
    for batch in history.batches:
        if batch.handled_s is not None:
            for record in batch.records:
                by_record.setdefault(record, []).append(batch)
    interrupted = {id(each) for each in history.batches if any(is_in_flight(each, death) for death in history.deaths)}
    repeated: dict[bool, set[Record]] = {True: set(), False: set()}
    for record, batches in by_record.items():
        if len(batches) > 1:
            *earlier, _ = sorted(batches, key=lambda batch: batch.handled_s or 0.0)
            repeated[all(id(each) in interrupted for each in earlier)].add(record)
    wanted = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    return Handled(frozenset(wanted - by_record.keys()), frozenset(repeated[True]), frozenset(repeated[False]))


def is_in_flight(batch: Batch, death: Death) -> bool:
    """Return whether the kill may keep the batch from being committed.

    A dead worker commits nothing more; without its coordinator, no member does. The pool's other processes take no part
    in it.
    """
    concerned = death.kind == "group coordinator" or (death.kind == "worker" and death.pid == batch.pid)
    return concerned and batch.entered_s <= death.at_s and (batch.committed_s is None or batch.committed_s > death.at_s)


def takeovers_s(deaths: Iterable[Death], seen: Sequence[Owners]) -> list[float | None]:
    """Return, for each worker that was killed and had partitions, the time until living members have them.

    None: not before the end. ``seen``: in order of time.
    """
    workers = sorted((each for each in deaths if each.kind == "worker"), key=lambda death: death.at_s)
    died_s: dict[str, float] = {}
    for death in workers:
        for owners in seen:
            if owners.at_s <= death.at_s:
                died_s |= {
                    member: death.at_s
                    for member, client_id in owners.members.items()
                    if client_id == death.client_id and member not in died_s
                }
    found: list[float | None] = []
    for death in workers:
        if death.partitions:
            after = (each for each in seen if each.at_s > death.at_s and _are_owned(death.partitions, each, died_s))
            found.append(next((each.at_s - death.at_s for each in after), None))
    return found


def _are_owned(partitions: Collection[int], owners: Owners, died_s: Mapping[str, float]) -> bool:
    members = [owners.partitions.get(partition) for partition in partitions]
    return all(each is not None and died_s.get(each, owners.at_s) >= owners.at_s for each in members)
