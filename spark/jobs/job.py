"""The definition of a job: the tables that it reads and the sections of its answer.

A job's module contains functions from DataFrame to DataFrame and, last, its ``JOB``. It reads nothing, writes nothing
and knows no session: :mod:`muster.spark.result` passes it the tables and takes its answer.
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
    """The options of all jobs; a job ignores those that do not concern it."""

    start: datetime | None = None
    """Start of the requested time (aware); None: from the first row. The tables are already limited to it."""
    end: datetime | None = None
    """End of the requested time (aware), exclusive; None: up to the last row."""
    groups: frozenset[str] = frozenset()
    """Requested consumer groups; empty: all."""
    bucket_seconds: int = 60
    """Width of the steps of time series, in s; 1 or more."""
    top: int = 20
    """Maximum number of rows of a ranking."""
    price_per_gib: float | None = None
    """Price of a GiB that was sent, in any currency; None: nothing is charged."""
    timezone: str = "UTC"
    """IANA name of the zone for days and hours. The session's own zone is UTC and stays so."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """Clock (aware) for "current" values: ``end`` if the request is about the past, ``stopped`` at the latest."""
    cluster: str = ""
    """Id of the cluster that wrote the tables; empty: not known."""
    stopped: datetime | None = None
    """Time (aware) at which the cluster was stopped in order; None: it runs, or was lost."""
    lag_intervals: int = 10
    """Number of rows of ``commits`` for a verdict, per partition of a group (Burrow: ``storage.intervals``)."""
    commits_flush_ms: int = 10_000
    """``metrics.commits.flush.ms`` of the cluster that wrote the tables; the default is that property's."""
    end_offsets_flush_ms: int = 10_000
    """``metrics.end.offsets.flush.ms`` of that cluster."""
    what_if_partitions: int | None = None
    """Simulated number of partitions of ``__consumer_offsets``; None: no simulation."""
    what_if_nodes: int | None = None
    """Simulated number of nodes; None: no simulation."""

    def at_present(self) -> Options:
        """Return the same with the current clock: ``now`` is now, or ``end`` or ``stopped`` if that has passed."""
        return replace(self, now=min(filter(None, (datetime.now(UTC), self.end, self.stopped))))

    def of_groups(self, frame: DataFrame, column: str = "group") -> DataFrame:
        """Return the rows of ``frame`` of the requested groups: all rows if no group is named."""
        return frame.where(F.col(column).isin(sorted(self.groups))) if self.groups else frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Plot of a section in the report, which has the table as well. Columns are named as in its frame."""

    kind: Literal["lines", "bars"]
    """``lines``: ``y`` over the timestamps of ``x``, one curve per ``series``. ``bars``: one bar per ``x``, made of the
    parts that ``series`` names."""
    x: tuple[str, ...]
    """For ``lines`` a timestamp; for ``bars`` the columns that name a bar: ``("topic", "partition")``."""
    y: str
    """A number; null is a gap in a curve and nothing in a bar."""
    y_label: str
    """Quantity with its unit: ``bytes per second``."""
    series: tuple[str, ...] = ()
    """Columns that name a curve or a part; empty: there is only one."""
    absent: str = "-"
    """Text of a bar without any number, for ``bars``."""
    absent_is_zero: bool = False
    """Whether ``y`` was 0 in a step of ``bucket_seconds`` without a row, for ``lines``; otherwise it is a gap."""


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an answer: aggregated, ordered, and small enough to be shown."""

    name: str
    """snake_case, unique within the job: the key in JSON, the folder's name in Parquet."""
    title: str
    """Content of the table, in a few words, for users."""
    frame: DataFrame
    """Columns are snake_case and end with their unit: ``lag_messages``, ``rate_bytes_per_second``."""
    note: str = ""
    """Explanation for readers, if the title is not enough; one or two sentences."""
    plot: Plot | None = None
    total: DataFrame | None = None
    """One row of sums over all rows, whatever limit the frame or an answer has."""
    bulk: bool = False
    """Whether the frame is as large as the tables, for other programs: written as Parquet, and never shown."""


Sections = Callable[[Mapping[str, DataFrame], Options], Sequence[Section]]
"""Function from a job's tables, by name, to its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    name: str
    """Name in ``muster spark NAME``."""
    title: str
    """Content, in one line."""
    tables: tuple[str, ...]
    """Tables that it reads, by their names in :data:`muster.actors.tables.schemas.TABLES`."""
    sections: Sections
    history: tuple[str, ...] = ()
    """Tables read from their first row, whatever ``Options.start`` is, because rows that hold at the start were written
    before it (the last commit, a registration)."""
    rollups: bool = False
    """Whether it takes samples from their roll-ups where it can (:mod:`muster.spark.jobs.shared.sent`)."""
    streamed: tuple[str, ...] = ()
    """Tables that its streaming form reads as they grow (:mod:`muster.spark.streaming`); empty: it has no such form."""
