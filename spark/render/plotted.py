"""Data of a plot of a section with more rows than are fetched: Spark selects them, and they are few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from muster.spark.jobs.job import Plot
from muster.spark.jobs.shared.buckets import step_of

CURVES = 4
"""Maximum number of curves, or parts of a bar, that readers can distinguish."""
BARS = 8
"""Maximum number of bars that readers can see at a glance."""
STEPS = 400
"""Maximum number of points of a curve; about as many as the page shows pixels for."""

_SIZE, _FIRST_S, _LAST_S, _COUNT = "_size", "_first_s", "_last_s", "_count"


@dataclass(frozen=True, slots=True)
class Reduced:
    frame: DataFrame
    """Series, x and y of the plot; for curves, the highest y of each step."""
    in_all: int
    """Number of curves or bars of the section."""
    step_seconds: int
    """Time between two points of a curve."""


def reduced(frame: DataFrame, plot: Plot, *, bucket_seconds: int) -> Reduced:
    """Return the :data:`CURVES` with the highest points, or the :data:`BARS` with the largest sums. Runs a query."""
    return _bars(frame, plot, bucket_seconds) if plot.kind == "bars" else _curves(frame, plot, bucket_seconds)


def _bars(frame: DataFrame, plot: Plot, bucket_seconds: int) -> Reduced:
    largest = _largest(frame.groupBy(*plot.x).agg(F.sum(plot.y).alias(_SIZE)), plot.x, BARS)
    kept = frame.where(_is_one_of(largest, plot.x)).select(*plot.series, *plot.x, plot.y)
    return Reduced(kept, largest[0][_COUNT] if largest else 0, bucket_seconds)


def _curves(frame: DataFrame, plot: Plot, bucket_seconds: int) -> Reduced:
    at = F.unix_timestamp(plot.x[0])
    of_all = Window.partitionBy()  # over one row per curve
    sizes = frame.groupBy(*plot.series).agg(
        F.max(plot.y).alias(_SIZE), F.min(at).alias(_FIRST_S), F.max(at).alias(_LAST_S)
    )
    spanned = [F.min(_FIRST_S).over(of_all).alias(_FIRST_S), F.max(_LAST_S).over(of_all).alias(_LAST_S)]
    highest = _largest(sizes.select(*plot.series, _SIZE, *spanned), plot.series, CURVES)
    span_s = highest[0][_LAST_S] - highest[0][_FIRST_S] if highest else 0
    step_seconds = bucket_seconds * max(1, math.ceil(span_s / STEPS / bucket_seconds))
    start = step_of(F.col(plot.x[0]), step_seconds).start.alias(plot.x[0])
    kept = frame.where(_is_one_of(highest, plot.series)).groupBy(*plot.series, start).agg(F.max(plot.y).alias(plot.y))
    return Reduced(kept, highest[0][_COUNT] if highest else 0, step_seconds)


def _largest(sizes: DataFrame, keys: Sequence[str], most: int) -> list[Row]:
    counted = sizes.withColumn(_COUNT, F.count("*").over(Window.partitionBy()))
    return counted.orderBy(F.col(_SIZE).desc_nulls_last(), *keys).limit(most).collect()


def _is_one_of(rows: Sequence[Row], keys: Sequence[str]) -> Column:
    return reduce(or_, (_is(row, keys) for row in rows), F.lit(False))


def _is(row: Row, keys: Sequence[str]) -> Column:
    is_same = F.lit(True)
    for key in keys:
        is_same &= F.col(key).eqNullSafe(F.lit(row[key]))
    return is_same
