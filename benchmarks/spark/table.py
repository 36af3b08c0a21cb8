"""Jobs side by side, local Spark and RayDP: their cost, and whether RayDP costs too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.report import Figures, describe, format_number
from benchmarks.spark.runs import Cost, Run

DEAREST_RAYDP = 1.15
"""Limit as a ratio to local Spark's time for the same jobs, both without the start of the session."""
SIDES = ("local", "RayDP")
_HEADINGS = (
    ("job", "left"),
    ("local s", "right"),
    ("RayDP s", "right"),
    ("ratio", "right"),
    ("local MiB", "right"),
    ("RayDP MiB", "right"),
    ("rows read", "right"),
    ("MB read", "right"),
    ("MB shuffled", "right"),
    ("MB spilled", "right"),
)
_WIDTH = 160


@dataclass(slots=True)
class Pair:
    """One job on both sides: for each side its cost, or the reason why there is none."""

    job: str
    runs: dict[str, Run] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def cost(self, side: str) -> Cost | None:
        return self.runs[side].jobs[self.job] if side in self.runs else None

    @property
    def ratio(self) -> float | None:
        """RayDP's time over local Spark's."""
        local, raydp = (self.cost(side) for side in SIDES)
        return None if local is None or raydp is None else raydp.seconds / local.seconds

    @property
    def missing(self) -> list[str]:
        """A line for each side without a cost."""
        reasons = {**self.left_out, **self.failed}
        return [f"{self.job}, {side}: {' '.join(reason.split())[-200:]}" for side, reason in reasons.items()]


def as_figures(pairs: Sequence[Pair], figures: Figures) -> None:
    """Add all measurements, and the limit on the sum of the jobs that both sides have."""
    for pair in pairs:
        for side in pair.runs:
            run, cost = pair.runs[side], pair.runs[side].jobs[pair.job]
            part = f"{pair.job}, {side}"
            figures.add(part, "start of the session", run.start_s, "s")
            figures.add(part, "time", cost.seconds, "s")
            figures.add(part, "end of the session", run.close_s, "s")
            figures.add(part, "peak memory (PSS)", cost.peak_bytes / 2**20, "MiB")
            figures.add(part, "rows read", cost.read_rows, "")
            figures.add(part, "bytes read, cached frames included", cost.read_bytes, "bytes")
            figures.add(part, "bytes shuffled", cost.shuffle_bytes, "bytes")
            figures.add(part, "bytes spilled", cost.spilled_bytes, "bytes")
            figures.add(part, "tasks", cost.executor_ms / 1000, "s")
            figures.add(part, "garbage collection", cost.gc_ms / 1000, "s")
            figures.add(part, "rows of the answer", cost.answered_rows, "")
    both = [pair for pair in pairs if pair.ratio is not None]
    if both:
        local_s, raydp_s = (sum(_seconds(pair, side) for pair in both) for side in SIDES)
        figures.add("all jobs", "RayDP's time over local Spark's, without starts", raydp_s / local_s, "", DEAREST_RAYDP)


def print_pairs(pairs: Sequence[Pair], figures: Figures, machine: dict[str, Any]) -> None:
    table = Table(title=describe(machine), title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name, justify in _HEADINGS:
        table.add_column(name.upper(), justify="right" if justify == "right" else "left")
    for row in _rows(pairs):
        table.add_row(*row)
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    console.print(table)
    for line in _below(pairs, figures):
        console.print(line, markup=False)


def markdown(pairs: Sequence[Pair], figures: Figures, machine: dict[str, Any]) -> str:
    """Return the result as in docs/benchmarks.md."""
    head = "| " + " | ".join(name for name, _ in _HEADINGS) + " |"
    rule = "|" + "|".join("---" if justify == "left" else "--:" for _, justify in _HEADINGS) + "|"
    rows = ["| " + " | ".join(row) + " |" for row in _rows(pairs)]
    below = [line for text in _below(pairs, figures) for line in ("", text)]
    return "\n".join([describe(machine), "", head, rule, *rows, *below])


def _rows(pairs: Sequence[Pair]) -> list[list[str]]:
    return [_row(pair) for pair in pairs] + ([_total(both)] if (both := [p for p in pairs if p.ratio]) else [])


def _row(pair: Pair) -> list[str]:
    local, raydp = (pair.cost(side) for side in SIDES)
    read = raydp or local
    return [
        pair.job,
        *("-" if cost is None else f"{cost.seconds:.1f}" for cost in (local, raydp)),
        "-" if pair.ratio is None else f"{pair.ratio:.2f}",
        *("-" if cost is None else f"{cost.peak_bytes / 2**20:,.0f}" for cost in (local, raydp)),
        *(
            ["-"] * 4
            if read is None
            else [
                f"{read.read_rows:,}",
                *(format_number(size / 1e6) for size in (read.read_bytes, read.shuffle_bytes, read.spilled_bytes)),
            ]
        ),
    ]


def _total(both: Sequence[Pair]) -> list[str]:
    seconds = [sum(_seconds(pair, side) for pair in both) for side in SIDES]
    return ["all", *(f"{value:.1f}" for value in seconds), f"{seconds[1] / seconds[0]:.2f}", *([""] * 6)]


def _below(pairs: Sequence[Pair], figures: Figures) -> list[str]:
    lines = [line for pair in pairs for line in pair.missing]
    for side in SIDES:
        if starts := sorted(pair.runs[side].start_s for pair in pairs if side in pair.runs):
            lines.append(f"start of a session, {side}: {starts[0]:.1f} to {starts[-1]:.1f} s")
    for figure in figures:
        if figure.limit is not None:
            lines.append(f"{figure.what}: {figure.shown}, {figure.verdict}")
        elif figure.part == "tables":
            lines.append(f"tables, {figure.what}: {figure.shown}")
    return lines


def _seconds(pair: Pair, side: str) -> float:
    cost = pair.cost(side)
    return 0.0 if cost is None else cost.seconds
