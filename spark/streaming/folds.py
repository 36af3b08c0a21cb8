"""Folds: from rows of a table to fewer rows of the same table, for the same jobs.

Folding previously folded rows, in any parts, gives the same as folding everything at once. Only the samples of
``consumption`` are reduced, since that job needs nothing finer than a minute and a run of offsets. ``attribution``
needs each sample with its own times, which are compared with registrations, and its own size per offset. ``commits``
and ``end_offsets`` are thinned by their writers, and lag in seconds and the verdicts depend on the width of their
windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.shared.buckets import step_of
from muster.spark.jobs.shared.runs import merged_runs

_STEP = "step"


@dataclass(frozen=True, slots=True)
class Fold:
    """Reduction of rows, and the moments that remain."""

    of: Callable[[DataFrame], DataFrame]
    step_s: int | None = None
    """Width of the steps of time, in s: the finest possible resolution; None: each row keeps its moment."""

    def time(self) -> Column:
        """Return the time of a folded row, as exactly as the fold keeps it."""
        return F.col("ts") if self.step_s is None else step_of(F.col("ts"), self.step_s).start


def folded_schema(table: str) -> StructType:
    """Return the input and output schema of a fold of that table: its columns, which may all be null."""
    schema = from_arrow_schema(TABLES[table].arrow)
    for field in schema:
        field.nullable = True
    return schema


def samples_by_the_minute(samples: DataFrame) -> DataFrame:
    """Fold records sent by one gateway in one minute to one client with one attribution: one row per run of offsets.

    ``ts`` and ``last_ts`` are the earliest and the latest of a run.
    """
    keys = ["gateway", "group", "member_id", "client_id", "host", "topic", "partition", "evidence", "reason"]
    times = F.min("ts").alias("ts"), F.max("last_ts").alias("last_ts")
    counts = ("messages", "bytes", "fetches", "control_records", "aborted_records")
    sums = (F.sum(name).alias(name) for name in counts)
    stepped = samples.withColumn(_STEP, BY_THE_MINUTE.time())
    return merged_runs(stepped, [_STEP, *keys], *times, *sums).select(*TABLES[SAMPLES].names)


AS_THEY_ARE = Fold(lambda rows: rows)
BY_THE_MINUTE = Fold(samples_by_the_minute, step_s=60)
_FOLDS = {("consumption", SAMPLES): BY_THE_MINUTE}


def fold_of(job: str, table: str) -> Fold:
    """Return the fold of a table that the job's stream reads."""
    return _FOLDS.get((job, table), AS_THEY_ARE)
