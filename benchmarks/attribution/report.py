"""Whether each case holds, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.attribution.cases import Case
from benchmarks.report import describe
from tests.attribution.truth import RIGHT_SHARE, Outcome

_KIB = 1024


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    kop: Outcome
    ours: Outcome
    evidence: dict[str, int]
    """Bytes that Muster counted for groups, by evidence."""
    differences: list[tuple[str, str, int, int, int]]
    """Group, topic, partition, bytes received and bytes that Muster counted, where they differ."""
    beyond_positions: int
    """The worst error of a group's count in bytes, minus the distance between the groups' positions."""

    @property
    def faults(self) -> list[str]:
        """Reasons why the case does not hold."""
        found = []
        if not self.ours.total:
            found.append("nothing was received")
        if self.ours.miscounted:
            found.append(f"{self.ours.miscounted:,} bytes miscounted")
        if self.case.may_swap:
            if self.beyond_positions > 0:
                found.append(f"off by {self.beyond_positions:,} bytes more than the positions")
        else:
            if self.ours.wrong:
                found.append("wrong labels")
            if self.ours.right_share < RIGHT_SHARE:
                found.append(f"less than {RIGHT_SHARE:.1%} right")
        return found


def print_results(results: Sequence[Result], machine: dict[str, Any]) -> None:
    table = Table(title=describe(machine), title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("CASE", "", "KiB", "KOP RIGHT", "WRONG", "LOST", "OURS RIGHT", "WRONG", "UNATTRIBUTED", "HOLDS"):
        table.add_column(name, justify="left" if name in ("CASE", "", "UNATTRIBUTED", "HOLDS") else "right")
    for row in map(_row, results):
        table.add_row(*row)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=200)).print(table)


def markdown(results: Sequence[Result], machine: dict[str, Any]) -> str:
    """Return the result for docs/benchmarks.md."""
    head = "| case | | KiB | KoP right | wrong | lost | ours right | wrong | unattributed | holds |"
    rows = [f"| {' | '.join(_row(result))} |" for result in results]
    return "\n".join([describe(machine), "", head, "|---|---|--:|--:|--:|--:|--:|--:|---|---|", *rows])


def write_json(path: Path, results: Sequence[Result], machine: dict[str, Any]) -> None:
    cases = [
        {
            "case": result.case.name,
            "about": result.case.about,
            "kop": asdict(result.kop),
            "ours": asdict(result.ours),
            "evidence": result.evidence,
            "beyond_positions": result.beyond_positions,
            "faults": result.faults,
            "differences": result.differences,
        }
        for result in results
    ]
    path.write_text(json.dumps({"machine": machine, "cases": cases}, indent=2))


def _row(result: Result) -> list[str]:
    kop, ours = result.kop, result.ours
    reasons = ", ".join(f"{_share(size, ours)} {reason}" for reason, size in ours.unattributed.items())
    return [
        result.case.name,
        result.case.about,
        f"{ours.total / _KIB:,.0f}",
        *(_share(size, kop) for size in (kop.right, kop.wrong, sum(kop.unattributed.values()))),
        *(_share(size, ours) for size in (ours.right, ours.wrong)),
        reasons,
        "; ".join(result.faults) or "yes",
    ]


def _share(size_bytes: int, outcome: Outcome) -> str:
    """Return the percentage of what was received; never 0% or 100% unless exact."""
    if not outcome.total:
        return "-"
    percent = size_bytes / outcome.total * 100
    if size_bytes > 0 and percent < 0.01:
        return "<0.01%"
    if size_bytes < outcome.total and percent > 99.99:
        return ">99.99%"
    return f"{percent:.4g}%"
