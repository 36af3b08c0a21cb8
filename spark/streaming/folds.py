"""Folds: from rows of a table to fewer rows of the same table, over which the same jobs run.

Folding what was folded before, in any parts, gives the same as folding it all at once. Only ``samples`` get fewer:
``commits`` and ``end_offsets`` are thinned by their writers, and how wide their windows are is what lag in seconds and
the verdicts go by.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from actors.tables.schemas import TABLES
from actors.tables.schemas.offsets import COMMITS, END_OFFSETS
from actors.tables.schemas.samples import SAMPLES
from spark.jobs.buckets import step_of
from spark.jobs.runs import merged_runs

Fold = Callable[[DataFrame], DataFrame]

SAMPLES_STEP_S = 60
"""Width of the steps of time of folded samples, in s."""

_STEP = "step"


def folded_schema(table: str) -> StructType:
    """Of what the fold of that table takes and returns: its columns, which may all be null."""
    schema = from_arrow_schema(TABLES[table])
    for field in schema:
        field.nullable = True
    return schema


def fold_samples(samples: DataFrame) -> DataFrame:
    """What one gateway sent in one minute to one client with one attribution: a row per run of offsets.

    ``ts`` and ``last_ts`` are the earliest and the latest of a run.
    """
    keys = ["gateway", "group", "member_id", "client_id", "host", "topic", "partition", "evidence", "reason"]
    times = F.min("ts").alias("ts"), F.max("last_ts").alias("last_ts")
    sums = (F.sum(name).alias(name) for name in ("messages", "bytes", "fetches"))
    stepped = samples.withColumn(_STEP, _samples_step())
    return merged_runs(stepped, [_STEP, *keys], *times, *sums).select(*TABLES[SAMPLES].names)


def _as_they_are(rows: DataFrame) -> DataFrame:
    return rows


FOLDS: dict[str, Fold] = {SAMPLES: fold_samples, COMMITS: _as_they_are, END_OFFSETS: _as_they_are}
"""By the table's name."""


def time_of(table: str) -> Column:
    """When a folded row was, as exactly as the fold keeps it."""
    return _samples_step() if table == SAMPLES else F.col("ts")


def _samples_step() -> Column:
    return step_of(F.col("ts"), SAMPLES_STEP_S).start
