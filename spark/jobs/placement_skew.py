"""Distribution of a load over places: partitions of ``__consumer_offsets``, or nodes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

LOADS = ("groups", "members", "commits", "events", "bytes")
"""Kinds of load."""


def long_loads(loads: DataFrame, level: str, name: Column, *others: str) -> DataFrame:
    """Return ``others``, level (partition, node), name, load (of :data:`LOADS`), value: one row per place and load."""
    values = F.explode(
        F.array(*(F.struct(F.lit(load).alias("load"), F.col(load).cast("double").alias("value")) for load in LOADS))
    )
    rows = loads.select(*others, F.lit(level).alias("level"), name.cast("string").alias("name"), values.alias("of"))
    return rows.select(*others, "level", "name", "of.load", "of.value")


def skew(loads: DataFrame, keys: Sequence[str] = ("level", "load")) -> DataFrame:
    """Return ``keys``, places, mean, highest, highest_name, max_over_mean, variation, gini of :func:`long_loads`;
    ordered.

    max_over_mean is 1 if all places are equal, and the number of places if one has everything. variation: standard
    deviation over mean. gini: 0 if equal, 1 - 1/places if one has everything. The last three are null without load.
    """
    rank = F.row_number().over(Window.partitionBy(*keys).orderBy("value", "name"))
    ranked = loads.withColumn("rank", rank)
    total, places = F.sum("value"), F.count(F.lit(1))
    gini = 2 * F.sum(F.col("rank") * F.col("value")) / (places * total) - (places + 1) / places
    return (
        ranked.groupBy(*keys)
        .agg(
            places.alias("places"),
            F.avg("value").alias("mean"),
            F.max("value").alias("highest"),
            F.max_by("name", "rank").alias("highest_name"),
            F.when(total > 0, F.max("value") / F.avg("value")).alias("max_over_mean"),
            F.when(total > 0, F.stddev_pop("value") / F.avg("value")).alias("variation"),
            F.when(total > 0, gini).alias("gini"),
        )
        .orderBy(*keys)
    )
