"""Times at which records and commits arrived, and waits of clients for them. Pure; times are Unix seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STEP_S = 0.5
"""Step of a lag curve."""
MIN_WAIT_S = 0.1
"""Shorter waits are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Time in which a record existed that its client did not have yet, or a commit was under way."""

    partition: int | None
    """None: a commit."""
    since_s: float
    """Time at which the record was produced, or the commit was first requested."""
    from_s: float
    """``since_s``, or the arrival of the partition's record before it, if that was later."""
    to_s: float

    @property
    def seconds(self) -> float:
        return self.to_s - self.from_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """Time in which a client had a partition without interruption."""

    partition: int
    since_s: float
    """Time at which the first of its records was produced."""
    from_s: float
    """Arrival of the first record."""
    to_s: float
    """Arrival of the last record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The arrivals at one client."""

    ages_s: Mapping[int, float] = field(default_factory=dict)
    """Greatest age of a record at its arrival, by number of the :data:`STEP_S` since the epoch."""
    spells: Sequence[Spell] = ()
    waits: Sequence[Wait] = ()
    """Within spells, and for commits."""

    @classmethod
    def from_json(cls, line: Mapping[str, Any] | None) -> Arrived:
        """Parse what :meth:`Arrivals.to_json` returned; None: nothing arrived."""
        if line is None:
            return cls()
        return cls(
            ages_s={int(step): age_s for step, age_s in line["ages_s"].items()},
            spells=[Spell(**spell) for spell in line["spells"]],
            waits=[Wait(**wait) for wait in line["waits"]],
        )


class Arrivals:
    """Counts the arrivals at one client."""

    def __init__(self) -> None:
        self._ages_s: dict[int, float] = {}
        self._open: dict[int, list[float]] = {}
        """Spell of each partition: since, from, to."""
        self._spells: list[tuple[int, list[float]]] = []
        self._waits: list[Wait] = []
        self._requested_s: float | None = None

    def assigned(self) -> None:
        """End all spells: another client may have had the partitions in between."""
        self._open = {}

    def add(self, partition: int, since_s: float, at_s: float) -> None:
        """Count a record that was produced at ``since_s``."""
        step = int(at_s / STEP_S)
        if at_s - since_s > self._ages_s.get(step, 0.0):
            self._ages_s[step] = at_s - since_s
        spell = self._open.get(partition)
        if spell is None:
            spell = self._open[partition] = [since_s, at_s, at_s]
            self._spells.append((partition, spell))
            return
        from_s = max(since_s, spell[2])
        if at_s - from_s >= MIN_WAIT_S:
            self._waits.append(Wait(partition=partition, since_s=since_s, from_s=from_s, to_s=at_s))
        spell[2] = at_s

    def commit_requested(self, at_s: float) -> None:
        """Count a commit; a wait begins with the first one after a commit that succeeded."""
        if self._requested_s is None:
            self._requested_s = at_s

    def committed(self, at_s: float) -> None:
        """Count a commit that succeeded."""
        since_s, self._requested_s = self._requested_s, None
        if since_s is not None and at_s - since_s >= MIN_WAIT_S:
            self._waits.append(Wait(partition=None, since_s=since_s, from_s=since_s, to_s=at_s))

    def to_json(self) -> dict[str, Any]:
        names = ("partition", "since_s", "from_s", "to_s")
        return {
            "ages_s": self._ages_s,
            "spells": [dict(zip(names, (partition, *spell), strict=True)) for partition, spell in self._spells],
            "waits": [{name: getattr(wait, name) for name in names} for wait in self._waits],
        }


def waits_of(clients: Iterable[Arrived]) -> list[Wait]:
    """Return the waits of a group: those of its members, and those between a partition's spells at two members."""
    clients = list(clients)
    found = [wait for client in clients for wait in client.waits]
    last: dict[int, float] = {}
    for spell in sorted((spell for client in clients for spell in client.spells), key=lambda spell: spell.from_s):
        if spell.partition in last:
            from_s = max(spell.since_s, last[spell.partition])
            if spell.from_s - from_s >= MIN_WAIT_S:
                between = Wait(partition=spell.partition, since_s=spell.since_s, from_s=from_s, to_s=spell.from_s)
                found.append(between)
        last[spell.partition] = max(spell.to_s, last.get(spell.partition, spell.to_s))
    return sorted(found, key=lambda wait: wait.to_s)


def lag_of(clients: Iterable[Arrived]) -> dict[int, float]:
    """Return the age in seconds of the oldest record that a group had not received, by step; the greatest in the step.

    Steps that are missing had none. A record's age grows while it waits, so that a pause is a slope.
    """
    clients = list(clients)
    lag_s: dict[int, float] = {}
    for client in clients:
        for step, age_s in client.ages_s.items():
            lag_s[step] = max(age_s, lag_s.get(step, 0.0))
    for wait in waits_of(clients):
        if wait.partition is None:
            continue
        for step in range(int(wait.from_s / STEP_S), int(wait.to_s / STEP_S) + 1):
            age_s = min((step + 1) * STEP_S, wait.to_s) - wait.since_s
            lag_s[step] = max(age_s, lag_s.get(step, 0.0))
    return lag_s
