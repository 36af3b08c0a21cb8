"""The ledger: a row for each run of a ring, in a file of the repository."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich.table import Table

from tests.rings.ring import Ring

LEDGER = Path(__file__).with_name("ledger.csv")
PASSED = "passed"
DIRTY = "-dirty"
STALE = 5
"""A ring that has not passed in so many changes is shown in red."""
GROWN = 1.2
"""A ring that takes this many times as long as before has grown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    ring: str
    commit: str
    """Abbreviated to 12 digits; DIRTY follows if files differed from it, and then the run proves nothing."""
    date: str
    """UTC, in minutes."""
    seconds: int
    tests: int
    """How many ended, whatever their outcome; 0 for checks that are no tests."""
    result: str
    """``passed``, or what failed."""


_COLUMNS = [field.name for field in fields(Row)]


def read(file: Path = LEDGER) -> list[Row]:
    """Every row, oldest first; none without the file."""
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return [_row(each) for each in csv.DictReader(lines)]


def _row(cells: dict[str, str]) -> Row:
    return Row(
        ring=cells["ring"],
        commit=cells["commit"],
        date=cells["date"],
        seconds=int(cells["seconds"]),
        tests=int(cells["tests"]),
        result=cells["result"],
    )


def append(row: Row, file: Path = LEDGER) -> None:
    """Add a row, and the heading to a new file."""
    is_new = not file.exists()
    with file.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, _COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(row))


def latest(rows: Iterable[Row], ring: str) -> Row | None:
    """Return the last run of the ring that passed on a commit."""
    found = [row for row in rows if row.ring == ring and row.result == PASSED and not row.commit.endswith(DIRTY)]
    return found[-1] if found else None


def age(rows: Sequence[Row], ring: str) -> int | None:
    """Return the number of changes since the ring last passed; None if it never did.

    A change is a commit that any ring was run on.
    """
    passed = latest(rows, ring)
    if passed is None:
        return None
    later = rows[len(rows) - rows[::-1].index(passed) :]
    return len({row.commit.removesuffix(DIRTY) for row in later} - {passed.commit})


def growth(rows: Iterable[Row], row: Row, slowness: float = 1.0) -> str | None:
    """Return a sentence if a run that passed took a fifth longer than the last one.

    The machine is ``slowness`` times as slow.
    """
    before = latest(rows, row.ring)
    if before is None or row.result != PASSED or row.seconds <= GROWN * slowness * before.seconds:
        return None
    return f"{row.ring} has grown: {row.seconds} s; {before.seconds} s on {before.commit} ({before.date})"


def table(rings: Iterable[Ring], rows: Sequence[Row]) -> Table:
    """Return the last run of every ring, with those that are stale in red."""
    shown = Table(title="The ledger of rings", title_justify="left")
    for column in ("ring", "passed on", "date", "seconds", "tests", "changes since", "last result"):
        shown.add_column(column, justify="right" if column in ("seconds", "tests", "changes since") else "left")
    for ring in rings:
        passed, since = latest(rows, ring.name), age(rows, ring.name)
        last = next((row.result for row in reversed(rows) if row.ring == ring.name), "")
        cells = (
            (passed.commit, passed.date, str(passed.seconds), str(passed.tests)) if passed else ("never", "", "", "")
        )
        is_stale = since is None or since > STALE
        changes = f"{'' if since is None else since}{' stale' if is_stale else ''}".strip()
        shown.add_row(ring.name, *cells, changes, last, style="red" if is_stale else None)
    return shown
