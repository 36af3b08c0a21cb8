"""Display of a running demo: steps, and bars of records in and out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from examples.demo.page import Check, Fact, GroupLine
from muster.actors.runtime import rich_console

_PLAIN_INTERVAL_S = 10.0


class Display:
    """Bars on a terminal; otherwise a line from time to time. Use as a context manager."""

    def __init__(self, bars: Sequence[str], total: int) -> None:
        self.console = rich_console.console()
        self._live = rich_console.is_live(self.console)
        self._started = time.monotonic()
        self.started_s = time.time()
        """Unix time of second 0."""
        self._progress = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            console=self.console,
            transient=True,
            disable=not self._live,
        )
        self._tasks: dict[str, TaskID] = {
            name: self._progress.add_task(name, total=total, visible=False) for name in bars
        }
        self._next_plain = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def now_s(self) -> float:
        """Return the seconds since the demo started."""
        return time.monotonic() - self._started

    def step(self, text: str) -> None:
        self.console.print(f"{self.now_s():6.1f} s  {text}")

    def records(self, counts: dict[str, int]) -> None:
        """Show how many records went in and out so far."""
        for name, count in counts.items():
            self._progress.update(self._tasks[name], completed=count, visible=True)
        if not self._live and self.now_s() >= self._next_plain:
            self._next_plain = self.now_s() + _PLAIN_INTERVAL_S
            self.step("records: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))

    def results(self, checks: Sequence[Check], groups: Sequence[GroupLine]) -> None:
        """Show the groups and the checks, as tables."""
        table = Table(title="Messages per group, counted once", title_justify="left")
        for name in ("group", "client"):
            table.add_column(name)
        for name in ("consumed", "attributed", "sent again"):
            table.add_column(name, justify="right")
        for line in groups:
            numbers = (f"{number:,}" for number in (line.consumed, line.attributed, line.resent))
            table.add_row(line.group, line.client, *numbers)
        self.console.print(table)
        for check in checks:
            mark = Text("ok      ", "green") if check.held else Text("FAILED  ", "red")
            self.console.print(mark.append(f"{check.name}: {check.detail}", "default"))

    def conclusion(self, facts: Sequence[Fact], checks: Sequence[Check], page: Path) -> None:
        """Print the answer, in the last lines."""
        failed = [check for check in checks if not check.held]
        verdict = f"{len(failed)} of {len(checks)} failed" if failed else f"all {len(checks)} ok"
        table = Table.grid(padding=(0, 2))
        for fact in facts:
            table.add_row(fact.word, Text(fact.figure, "green" if fact.is_good else "red"), fact.short)
        table.add_row("Checks", Text(verdict, "red" if failed else "green"), "; ".join(check.name for check in failed))
        self.console.print(table)
        self.console.print(f"Page    {page}")
        self.console.print("Console make demo KEEP=1 keeps Muster running and says where its console is")
