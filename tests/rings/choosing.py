"""Which rings CI runs: those that are due, and one more by the commit's id, as far as the time allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.rings.ledger import Row, latest
from tests.rings.ring import FIRST, Ring

SMALL_S, LARGE_S = 15 * 60, 40 * 60
"""Time for a change of documentation alone, and for any other."""
UNKNOWN_S = 600
"""Estimate for a ring that never ran."""
EXTRA = 1 / 3
"""Part of the time that due rings leave for one more."""


@dataclass(frozen=True, slots=True)
class Choice:
    runs: tuple[Ring, ...]
    """In this order."""
    extra: Ring | None
    """The one that the commit's id chose; among ``runs``."""
    left: tuple[Ring, ...]
    """Due, without time for them."""


def estimate_s(rows: Sequence[Row], ring: Ring) -> int:
    """Duration of the last run that passed; without one, of the last run."""
    runs = [row.seconds for row in rows if row.ring == ring.name]
    passed = latest(rows, ring.name)
    return passed.seconds if passed else runs[-1] if runs else UNKNOWN_S


def choose(
    rings: Collection[Ring], due: Collection[str], rows: Sequence[Row], commit: str, remaining_s: float, slowness: float
) -> Choice:
    """Return the rings to run in the remaining time.

    Due rings come first, the least recently passed at the front, and leave a third of the time. Of the rings that would
    not run, due or not, the commit's id chooses one that fits. Then more due ones, while the time lasts. ``slowness``:
    how many times as long as in the ledger rings take on this machine today.
    """
    others = [ring for ring in rings if ring.name != FIRST]
    budget = _Budget({ring: estimate_s(rows, ring) * slowness for ring in others}, remaining_s)
    queue = sorted((ring for ring in others if ring.name in due), key=lambda ring: _last_run(rows, ring))
    runs = budget.take(queue, leaving_s=remaining_s * EXTRA)
    fitting = [ring for ring in others if ring not in runs and budget.has_time_for(ring)]
    extra = fitting[int(commit[:8], 16) % len(fitting)] if fitting else None
    if extra:
        runs += budget.take([extra])
    runs += budget.take([ring for ring in queue if ring not in runs])
    return Choice(tuple(runs), extra, tuple(ring for ring in queue if ring not in runs))


class _Budget:
    def __init__(self, costs_s: Mapping[Ring, float], remaining_s: float) -> None:
        self._costs_s, self._remaining_s = costs_s, remaining_s

    def has_time_for(self, ring: Ring, *, leaving_s: float = 0.0) -> bool:
        return self._costs_s[ring] <= self._remaining_s - leaving_s

    def take(self, rings: Iterable[Ring], *, leaving_s: float = 0.0) -> list[Ring]:
        """Return the rings that fit, in their order; their time is gone."""
        taken = []
        for ring in rings:
            if self.has_time_for(ring, leaving_s=leaving_s):
                self._remaining_s -= self._costs_s[ring]
                taken.append(ring)
        return taken


def _last_run(rows: Sequence[Row], ring: Ring) -> int:
    """Position in the ledger of the last run that passed; -1 without one."""
    passed = latest(rows, ring.name)
    return rows.index(passed) if passed else -1
