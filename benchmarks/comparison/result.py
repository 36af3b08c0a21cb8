"""Result of a comparison: as JSON, as a table, and beside another run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.comparison.rows import Goal, Rounds, Row
from benchmarks.report import describe, format_number

_ALWAYS = ("cpu_us", "cpu_us_per_mib")
"""Figures that are shown beside those that have a goal."""
HEADINGS = ("row", "figure", "Muster", "Kafka", "ratio", "goal")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of a row: medians, their spread, the ratio of Muster to Kafka, and whether its goal is met."""

    row: str
    title: str
    figure: str
    muster: float
    muster_spread: tuple[float, float]
    kafka: float
    kafka_spread: tuple[float, float]
    ratio: float
    goal: str
    is_met: bool | None

    @property
    def cells(self) -> tuple[str, ...]:
        goal = "" if self.is_met is None else f"{self.goal}{'' if self.is_met else ', MISSED'}"
        return (
            self.title,
            self.figure.replace("_", " "),
            _shown(self.muster, self.muster_spread),
            _shown(self.kafka, self.kafka_spread),
            f"{self.ratio:.2f}" if math.isfinite(self.ratio) else "",
            goal,
        )


def lines(row: Row, rounds: Rounds) -> Iterator[Line]:
    """Yield the figures that have a goal, and the processor time."""
    goals = {goal.figure: goal for goal in row.goals}
    figures = [*goals, *(figure for figure in _ALWAYS if figure not in goals and figure in rounds.muster[0])]
    for figure in figures:
        goal = goals.get(figure)
        ratio, ours = rounds.ratio(figure), rounds.median("Muster", figure)
        yield Line(
            row=row.name,
            title=row.title,
            figure=figure,
            muster=ours,
            muster_spread=rounds.spread("Muster", figure),
            kafka=rounds.median("Kafka", figure),
            kafka_spread=rounds.spread("Kafka", figure),
            ratio=ratio,
            goal=goal.text if goal else "",
            is_met=_is_met(goal, ours, ratio),
        )


def _is_met(goal: Goal | None, ours: float, ratio: float) -> bool | None:
    return None if goal is None else goal.is_met(ratio if goal.of_kafka else ours)


def table(found: Sequence[Line], machine: dict[str, Any]) -> Table:
    shown = Table(title=describe(machine), title_justify="left", box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        shown.add_column(heading.upper(), justify="left" if heading in ("row", "figure", "goal") else "right")
    title = ""
    for line in found:
        first, *others = line.cells
        shown.add_row(first if first != title else "", *others)
        title = first
    return shown


def markdown(found: Sequence[Line], machine: dict[str, Any]) -> str:
    """Return the table for docs/benchmarks.md."""
    rows = ["| " + " | ".join(line.cells) + " |" for line in found]
    return "\n".join([describe(machine), "", "| " + " | ".join(HEADINGS) + " |", "|---|---|--:|--:|--:|---|", *rows])


def write(path: Path, found: Sequence[Line], rounds: Sequence[Rounds], machine: dict[str, Any]) -> None:
    """Write medians and every round."""
    content = {
        "machine": machine,
        "lines": [asdict(line) for line in found],
        "rounds": {each.row: {"Muster": each.muster, "Kafka": each.kafka, "failure": each.failure} for each in rounds},
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def beside(before: Path, after: Path) -> Table:
    """Return the medians of two runs, and how they changed."""
    runs = [
        {(line["row"], line["figure"]): line for line in json.loads(path.read_text())["lines"]}
        for path in (before, after)
    ]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("ROW", "FIGURE", "MUSTER", "", "CHANGE", "KAFKA", "", "RATIO", ""):
        shown.add_column(heading, justify="left" if heading in ("ROW", "FIGURE") else "right")
    for key in [key for key in runs[0] if key in runs[1]]:
        first, second = (run[key] for run in runs)
        change = f"{(second['muster'] / first['muster'] - 1) * 100:+.0f}%" if first["muster"] else ""
        shown.add_row(
            *(first["title"], key[1].replace("_", " ")),
            *(format_number(first["muster"]), format_number(second["muster"]), change),
            *(format_number(first["kafka"]), format_number(second["kafka"])),
            *(f"{first['ratio']:.2f}", f"{second['ratio']:.2f}"),
        )
    return shown


def print_wide(shown: Table) -> None:
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=200)).print(shown)


def _shown(value: float, spread: tuple[float, float]) -> str:
    return f"{format_number(value)} ({format_number(spread[0])} to {format_number(spread[1])})"
