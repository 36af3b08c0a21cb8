"""Runs of offsets: intervals of samples merged where they touch or overlap.

Source of the interval union: the sweep by start of any text on interval scheduling; here as window functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_NUMBER = "run_number"


def merged_runs(rows: DataFrame, keys: Sequence[str], *others: Column) -> DataFrame:
    """Return ``keys``, first_offset, last_offset and the aggregates ``others``, one row per run of covered offsets.

    No two runs of one key touch, so the sum of their lengths is the number of distinct offsets. Merging previously
    merged runs, in any parts, gives the same, if ``others`` are sums, minima and maxima.
    """
    ordered = Window.partitionBy(*keys).orderBy("first_offset", "last_offset")
    covered_to = F.max("last_offset").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col("first_offset") > covered_to + 1, F.lit(True)).cast("int")
    numbered = rows.withColumn(_NUMBER, begins).withColumn(
        _NUMBER, F.sum(_NUMBER).over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    ends = F.min("first_offset").alias("first_offset"), F.max("last_offset").alias("last_offset")
    return numbered.groupBy(*keys, _NUMBER).agg(*ends, *others).drop(_NUMBER)


def length() -> Column:
    """Return the number of offsets of a run."""
    return F.col("last_offset") - F.col("first_offset") + 1
