"""Which rings CI runs: those that are due, and one more by the commit's id, as far as the time allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tests.rings.ledger import Row, latest
from tests.rings.ring import FIRST, Ring

SMALL_S, LARGE_S = 15 * 60, 40 * 60
"""Time for a change after which no ring is due, such as one of docs/, and for any other."""
UNKNOWN_S = 600
"""Estimate for a ring that has no row."""


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

    One is chosen by the commit's id out of those that fit, whether it is due or not. The due ones follow, the one
    whose last run is the oldest first, as long as they fit. ``slowness``: how many times as long as in the ledger
    rings take on this machine today.
    """
    costs = {ring.name: estimate_s(rows, ring) * slowness for ring in rings if ring.name != FIRST}
    fitting = [ring for ring in rings if ring.name != FIRST and costs[ring.name] <= remaining_s]
    extra = fitting[int(commit[:8], 16) % len(fitting)] if fitting else None
    runs = [extra] if extra else []
    left = []
    remaining_s -= costs[extra.name] if extra else 0
    for ring in sorted(rings, key=lambda ring: _last_run(rows, ring)):
        if ring.name not in due or ring.name == FIRST or ring in runs:
            continue
        if costs[ring.name] <= remaining_s:
            remaining_s -= costs[ring.name]
            runs.append(ring)
        else:
            left.append(ring)
    return Choice(tuple(runs), extra, tuple(left))


def _last_run(rows: Sequence[Row], ring: Ring) -> int:
    """Position in the ledger of the last run that passed; -1 without one."""
    passed = latest(rows, ring.name)
    return rows.index(passed) if passed else -1
