"""Which rings CI runs: those that are due, and one more by the commit's id, as far as the time allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.rings.ledger import Row, latest
from tests.rings.ring import FIRST, Ring

SMALL_S, LARGE_S = 15 * 60, 40 * 60
"""Time for a change of documentation alone, and for any other."""
UNKNOWN_S = 600
"""Estimate for a ring that never passed."""
EXTRA = 1 / 3
"""Part of the time that one more ring may take beside rings that are due."""


@dataclass(frozen=True, slots=True)
class Choice:
    runs: tuple[Ring, ...]
    """In this order."""
    extra: Ring | None
    """The one that the commit's id chose; among ``runs``."""
    left: tuple[Ring, ...]
    """Due, without time for them."""


def estimate_s(rows: Iterable[Row], ring: Ring) -> int:
    """Duration of the last run that passed."""
    passed = latest(rows, ring.name)
    return passed.seconds if passed else UNKNOWN_S


def choose(
    rings: Collection[Ring], due: Collection[str], rows: Sequence[Row], commit: str, remaining_s: float, slowness: float
) -> Choice:
    """The rings to run in the remaining time.

    One is chosen by the commit's id, out of those that are not due and fit; its time is set aside. The due ones go
    first, the one whose last run is the oldest before the others, as long as they fit. Where all are due, the
    commit's id chooses one of them. ``slowness``: how many times as long as in the ledger rings take on this machine
    today.
    """
    costs = {ring.name: estimate_s(rows, ring) * slowness for ring in rings if ring.name != FIRST}
    others = [ring for ring in rings if ring.name != FIRST]
    queue = sorted((ring for ring in others if ring.name in due), key=lambda ring: _last_run(rows, ring))
    share_s = remaining_s * EXTRA if queue else remaining_s
    fitting = [ring for ring in others if ring not in queue and costs[ring.name] <= share_s]
    if len(queue) == len(others):
        fitting = [ring for ring in others if costs[ring.name] <= remaining_s]
    extra = fitting[int(commit[:8], 16) % len(fitting)] if fitting else None
    remaining_s -= costs[extra.name] if extra else 0
    runs, left = [], []
    for ring in queue:
        if ring is extra:
            continue
        if costs[ring.name] <= remaining_s:
            remaining_s -= costs[ring.name]
            runs.append(ring)
        else:
            left.append(ring)
    return Choice((*runs, extra) if extra else tuple(runs), extra, tuple(left))


def _last_run(rows: Sequence[Row], ring: Ring) -> int:
    """Position in the ledger of the last run that passed; -1 without one."""
    passed = latest(rows, ring.name)
    return rows.index(passed) if passed else -1
