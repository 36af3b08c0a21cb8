"""What a job is: which tables it reads and which sections of an answer it makes of them.

A job's module holds functions from DataFrame to DataFrame and, last, its ``JOB``. It reads nothing, writes nothing and
knows no session: :mod:`muster.spark.answer` hands it the tables and takes its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an operator may ask of any job; a job leaves alone what does not concern it."""

    start: datetime | None = None
    """First moment that is asked about (aware); None: from the first row on. The tables are cut to it already."""
    end: datetime | None = None
    """The moment (aware) that is not asked about any more; None: up to the last row."""
    groups: frozenset[str] = frozenset()
    """Consumer groups that are asked about; empty: all."""
    bucket_seconds: int = 60
    """Width of the steps of time series, in s; 1 or more."""
    top: int = 20
    """How many rows a ranking has at most."""
    price_per_gib: float | None = None
    """What a GiB that was sent costs, in whatever currency; None: nothing is charged."""
    timezone: str = "UTC"
    """IANA name of the zone whose days and hours are meant. The session's own zone is UTC and stays so."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The clock (aware) for what is "current": ``end`` of a question about the past."""
    lag_intervals: int = 10
    """How many rows of ``commits`` a verdict looks at, per partition of a group (Burrow: ``storage.intervals``)."""
    commits_flush_ms: int = 10_000
    """``metrics.commits.flush.ms`` of the cluster that wrote the tables; the default is that property's."""
    end_offsets_flush_ms: int = 10_000
    """``metrics.end.offsets.flush.ms`` of it."""
    what_if_partitions: int | None = None
    """Simulated number of partitions of ``__consumer_offsets``; None: none is simulated."""
    what_if_nodes: int | None = None
    """Simulated number of nodes; None: none is simulated."""

    def at_present(self) -> Options:
        """The same with the clock as it is: ``now`` is now, or ``end`` if that has passed."""
        now = datetime.now(UTC)
        return replace(self, now=now if self.end is None else min(self.end, now))

    def of_groups(self, frame: DataFrame, column: str = "group") -> DataFrame:
        """The rows of ``frame`` whose group is asked about: all of them if none is named."""
        return frame.where(F.col(column).isin(sorted(self.groups))) if self.groups else frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """How a section is drawn in the report, which has the table as well. Columns are named as in its frame."""

    kind: Literal["lines", "bars"]
    """``lines``: ``y`` over the timestamps of ``x``, a curve per ``series``. ``bars``: a bar per ``x``, of the parts
    that ``series`` names."""
    x: tuple[str, ...]
    """Of ``lines`` a timestamp; of ``bars`` what names a bar: ``("topic", "partition")``."""
    y: str
    """A number; null is a gap in a curve and nothing in a bar."""
    y_label: str
    """The quantity with its unit: ``bytes per second``."""
    series: tuple[str, ...] = ()
    """What names a curve or a part; none: there is one."""
    absent_is_zero: bool = False
    """Of ``lines``: a step of ``bucket_seconds`` without a row is one in which ``y`` was 0, and not a gap."""


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an answer: aggregated, ordered and small, for it is shown."""

    name: str
    """snake_case, unique within the job: the key in JSON, the folder's name in Parquet."""
    title: str
    """What the table says, in a few words, for people."""
    frame: DataFrame
    """Columns are snake_case and end with their unit: ``lag_messages``, ``rate_bytes_per_second``."""
    note: str = ""
    """How to read it, if the title does not say it; one or two sentences."""
    plot: Plot | None = None
    bulk: bool = False
    """The frame is as large as the tables are, for other programs: written as Parquet, and never shown."""


Sections = Callable[[Mapping[str, DataFrame], Options], Sequence[Section]]
"""From a job's tables, by name, to its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    name: str
    """As in ``muster spark NAME``."""
    title: str
    """What it answers, in one line."""
    tables: tuple[str, ...]
    """The tables that it reads, by their names in :data:`muster.actors.tables.schemas.TABLES`."""
    sections: Sections
    history: tuple[str, ...] = ()
    """Those of ``tables`` that are read from their first row on whatever ``Options.start`` is, because what holds at
    the start was written before it (the last commit, a registration)."""
    streamed: tuple[str, ...] = ()
    """Those of ``tables`` that its streaming form takes in as they grow (:mod:`muster.spark.streaming`); none: it has
    no such form."""
