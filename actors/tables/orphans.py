"""Spools whose owner does not return: of a node that was lost, or of a gateway that is no longer managed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from muster.actors.tables.events import EventStore
from muster.actors.tables.folder import recover
from muster.actors.tables.rebalances import RebalanceStore
from muster.actors.tables.recovery import recover_samples
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.samples import SAMPLES

_FOLDER = re.compile(r"(?P<owner>.+)-\d{13}-[0-9a-f]{8}")


def adopt(metrics: Path, now_ms: Callable[[], int]) -> list[str]:
    """Write what dead processes of any owner left into the tables. Returns what stays in its spool, and why.

    A live process keeps its spools. If a successor tries at the same time, one of the two does it.
    """
    problems = []
    for owner, bring in _all(metrics, now_ms):
        try:
            bring()
        except OSError as error:
            problems.append(f"what {owner} left stays in its spool: {error}")
    return problems


def _all(metrics: Path, now_ms: Callable[[], int]) -> Iterator[tuple[str, Callable[[], int]]]:
    """Owners of spools, each with the function that writes what its dead processes left into a table."""
    spools = metrics / "spool"
    for owner in _owners(spools):
        kind, _, number = owner.partition("-")
        if kind == "gateway":
            settle = partial(recover_samples, table=metrics / SAMPLES, gateway=int(number))
            yield owner, partial(recover, spools, owner, settle)
        elif kind == "offsets":
            yield owner, RebalanceStore(metrics, int(number), now_ms=now_ms).recover
    for table in TABLES:
        for owner in _owners(spools / table):
            yield owner, EventStore(metrics, table, owner, now_ms=now_ms).recover


def _owners(spools: Path) -> list[str]:
    """Owners of the existing folders."""
    names = (path.name for path in spools.iterdir()) if spools.is_dir() else ()
    return sorted({found["owner"] for name in names if (found := _FOLDER.fullmatch(name))})
