"""The ledger: what is written is read, what counts as passed, and when a ring is stale or has grown."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tests.rings.ledger import Row, age, append, growth, latest, read, table
from tests.rings.ring import FIRST, Ring


def row(ring: str, commit: str, result: str = "passed", seconds: int = 100) -> Row:
    return Row(ring=ring, commit=commit, date="2026-11-28T12:00Z", seconds=seconds, tests=3, result=result)


def changes(count: int) -> list[Row]:
    return [row(FIRST, f"{number:012x}") for number in range(count)]


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "ledger.csv"
    assert read(file) == []
    rows = [row("nodes", "a" * 12), row("hosts", "b" * 12, "2 failed")]
    for each in rows:
        append(each, file)
    assert read(file) == rows


def test_only_a_run_that_passed_on_a_commit_counts() -> None:
    rows = [row("nodes", "a"), row("nodes", "b-dirty"), row("nodes", "c", "1 failed"), row("hosts", "d")]
    assert latest(rows, "nodes") == rows[0]
    assert latest(rows, "spark") is None


def test_age_is_in_changes() -> None:
    rows = [*changes(3), row("nodes", "a"), *changes(4)]
    assert age(rows, "nodes") == 4
    assert age([*rows, row("spark", f"{3:012x}-dirty")], "nodes") == 4, "the same commit again"
    assert age([*rows, row("spark", "another")], "nodes") == 5
    assert age(rows, FIRST) == 0
    assert age(rows, "hosts") is None


def test_a_ring_that_takes_a_fifth_longer_has_grown() -> None:
    rows = [row("nodes", "a", seconds=100)]
    assert growth(rows, row("nodes", "b", seconds=120)) is None
    assert growth(rows, row("nodes", "b", seconds=121)) == "nodes has grown: 121 s; 100 s on a (2026-11-28T12:00Z)"
    assert growth(rows, row("nodes", "b", seconds=239), slowness=2.0) is None
    assert growth(rows, row("nodes", "b", "1 failed", seconds=999)) is None
    assert growth(rows, row("hosts", "b", seconds=999)) is None


def test_stale_rings_are_red() -> None:
    rings = [Ring(name=name, covers="", paths=(), command="") for name in ("nodes", "hosts", "spark")]
    rows = [row("nodes", "a"), *changes(5), row("hosts", f"{4:012x}")]
    console = Console(force_terminal=True, color_system="standard", width=140)

    def lines(rows: list[Row]) -> dict[str, bool]:
        """Whether the line of a ring is red."""
        with console.capture() as capture:
            console.print(table(rings, rows))
        found = [line for line in capture.get().splitlines() if any(ring.name in line for ring in rings)]
        return {next(ring.name for ring in rings if ring.name in line): "\x1b[31m" in line for line in found}

    assert lines(rows) == {"nodes": False, "hosts": False, "spark": True}
    assert lines([*rows, *changes(7)[5:]]) == {"nodes": True, "hosts": False, "spark": True}
