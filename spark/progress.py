"""Spark's progress on stderr: a bar on a terminal, else one line per step."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from muster.actors.runtime import rich_console

_POLL_S = 0.25


class Progress:
    """Steps, and within them the tasks of the running stages, from Spark's status tracker."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or rich_console.console(err=True)
        self._live = rich_console.is_live(self._console)
        self._began = time.monotonic()
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("tasks"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,  # answers go to stdout even where only stderr is a terminal
            disable=not self._live,
        )
        self._bar = self._bars.add_task("", total=None)
        self._ended = threading.Event()
        self._watch: threading.Thread | None = None

    def step(self, text: str) -> None:
        """Show what is being done now."""
        if self._live:
            self._bars.update(self._bar, description=text, completed=0, total=None)
        else:
            self._console.print(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def follow(self, session: SparkSession) -> None:
        """Count the tasks of that session's stages from now on. No effect without a terminal."""
        if self._live and self._watch is None:
            self._watch = threading.Thread(target=self._count, args=(session,), name="spark-progress", daemon=True)
            self._watch.start()

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Hide the bar while other output goes to the same terminal."""
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()

    def rest(self) -> None:
        """Stop querying the session, which is about to end."""
        self._ended.set()
        if self._watch is not None:
            self._watch.join()
            self._watch = None

    def _count(self, session: SparkSession) -> None:
        tracker = session.sparkContext.statusTracker()
        while not self._ended.wait(_POLL_S):
            with suppress(Py4JError, OSError):  # the session may be ending
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                known = [stage for stage in stages if stage is not None]
                if known:
                    self._bars.update(
                        self._bar,
                        completed=sum(stage.numCompletedTasks for stage in known),
                        total=sum(stage.numTasks for stage in known),
                    )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()
        self._bars.stop()
