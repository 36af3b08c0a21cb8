"""Judges a commit as CI does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.rings import ledger
from tests.rings.checkout import Checkout
from tests.rings.choosing import LARGE_S, SMALL_S, choose
from tests.rings.imports import paths_of
from tests.rings.ledger import PASSED, Row
from tests.rings.ring import FIRST, Ring
from tests.rings.running import Runner, run_all

Shown = Callable[[Row, Path, float], Row]
CODE = (".", ":(exclude)docs", ":(exclude,top,glob)*.md")
"""All but documentation, as git's pathspecs."""


def judge(
    rings: Mapping[str, Ring],
    rows: Sequence[Row],
    runner: Runner,
    checkout: Checkout,
    began_s: float,
    say: Callable[[str], None],
    shown: Shown,
) -> list[Row]:
    """Run the first ring; if it passes, those that are due as far as the time allows, and one more.

    ``began_s``: the time of ``time.time`` from which the minutes count. ``say`` gets what is decided and why, ``shown``
    each later row, its log, and how many times as long as in the ledger rings take here.
    """
    others = [ring for ring in rings.values() if ring.name != FIRST and not ring.is_by_name]
    due = {ring.name for ring in others if is_due(ring, rows, checkout)}
    say(f"due, since what they cover has changed: {_names(due)}")
    for ring in rings.values():
        if ring.is_by_name:
            say(f"{ring.name} runs by make ring-{ring.name} alone: it needs {ring.needs}")
    found = [runner.run(rings[FIRST])]
    if found[0].result != PASSED:
        return found
    known = ledger.latest(rows, FIRST)
    slowness = found[0].seconds / known.seconds if known else 1.0
    is_small = known is not None and not checkout.changed(known.commit, CODE)
    remaining_s = (SMALL_S if is_small else LARGE_S) - (time.time() - began_s)
    choice = choose(others, due, rows, found[0].commit, remaining_s, slowness)
    say(f"{remaining_s:.0f} s are left, and this machine takes {slowness:.1f} times as long as the ledger says")
    say(f"chosen by the commit's id: {choice.extra.name if choice.extra else 'nothing, for none fits'}")
    say(f"to be run, in this order: {', '.join(ring.name for ring in choice.runs) or 'none'}")
    if choice.left:
        say(f"due, and not run for lack of time: {_names(ring.name for ring in choice.left)}")
    run_all(runner, choice.runs, lambda row, log: found.append(shown(row, log, slowness)))
    return found


def is_due(ring: Ring, rows: Sequence[Row], checkout: Checkout) -> bool:
    """Whether what the ring covers, or its tests, have changed since it last passed, or it never did."""
    passed = ledger.latest(rows, ring.name)
    return passed is None or checkout.changed(passed.commit, (*ring.paths, *paths_of(ring)))


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
