"""Folds: from rows of a table to fewer rows of the same table, over which the same jobs run.

Folding what was folded before, in any parts, gives the same as folding it all at once. Only the samples of
``consumption`` get fewer, for that job asks about nothing that is finer than a minute and a run of offsets.
``attribution`` wants each sample with its own times, by which it is compared with registrations, and its own size per
offset. ``commits`` and ``end_offsets`` are thinned by their writers, and how wide their windows are is what lag in
seconds and the verdicts go by.
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
    """How rows become fewer, and which moments are left."""

    of: Callable[[DataFrame], DataFrame]
    step_s: int | None = None
    """Width of the steps of time, in s, finer than which nothing may be asked; None: each row keeps its moment."""

    def time(self) -> Column:
        """When a folded row was, as exactly as the fold keeps it."""
        return F.col("ts") if self.step_s is None else step_of(F.col("ts"), self.step_s).start


def folded_schema(table: str) -> StructType:
    """Of what a fold of that table takes and returns: its columns, which may all be null."""
    schema = from_arrow_schema(TABLES[table])
    for field in schema:
        field.nullable = True
    return schema


def samples_by_the_minute(samples: DataFrame) -> DataFrame:
    """What one gateway sent in one minute to one client with one attribution: a row per run of offsets.

    ``ts`` and ``last_ts`` are the earliest and the latest of a run.
    """
    keys = ["gateway", "group", "member_id", "client_id", "host", "topic", "partition", "evidence", "reason"]
    times = F.min("ts").alias("ts"), F.max("last_ts").alias("last_ts")
    sums = (F.sum(name).alias(name) for name in ("messages", "bytes", "fetches"))
    stepped = samples.withColumn(_STEP, BY_THE_MINUTE.time())
    return merged_runs(stepped, [_STEP, *keys], *times, *sums).select(*TABLES[SAMPLES].names)


AS_THEY_ARE = Fold(lambda rows: rows)
BY_THE_MINUTE = Fold(samples_by_the_minute, step_s=60)
_FOLDS = {("consumption", SAMPLES): BY_THE_MINUTE}


def fold_of(job: str, table: str) -> Fold:
    """Of a table that the job's stream takes in."""
    return _FOLDS.get((job, table), AS_THEY_ARE)
