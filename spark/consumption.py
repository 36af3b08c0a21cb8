"""Who consumed how much: functions from the table ``samples`` to DataFrames.

A message is *distinct* if a gateway sent its offset to the group at least once, and *resent* for every further
time (a rebalance, a restart of the consumer, a batch that a fetch entered in its middle). Distinct is the size of
the union of the rows' offset intervals, so it counts offsets: on a compacted topic it is an upper bound, and
resent is then a lower one.

Source of the interval union: the sweep by start of any text on interval scheduling; here as one window function.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_CONSUMER = ["group", "topic", "partition"]


def per_bucket(samples: DataFrame, *, seconds: int = 60) -> DataFrame:
    """``bucket`` (start, timestamp), group (null: unattributed), topic, partition, messages, bytes.

    A row counts where it begins; it is at most one flush window long.
    """
    if seconds < 1:
        raise ValueError("a bucket has at least one second")
    bucket = F.timestamp_seconds(F.floor(F.unix_timestamp("ts") / seconds) * seconds).alias("bucket")
    keys = ["bucket", *_CONSUMER]
    return samples.select(bucket, *_CONSUMER, "messages", "bytes").groupBy(*keys).agg(*_sent()).orderBy(*keys)


def per_partition(samples: DataFrame) -> DataFrame:
    """group, topic, partition, messages, bytes, distinct, resent; attributed rows only."""
    attributed = samples.where(F.col("group").isNotNull())
    return (
        attributed.withColumn("new", _newly_covered())
        .groupBy(*_CONSUMER)
        .agg(*_sent(), F.sum("new").alias("distinct"))
        .withColumn("resent", F.greatest(F.col("messages") - F.col("distinct"), F.lit(0)))
        .orderBy(*_CONSUMER)
    )


def per_group(by_partition: DataFrame) -> DataFrame:
    """group, messages, bytes, distinct, resent: the sums of :func:`per_partition`."""
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes", "distinct", "resent")]
    return by_partition.groupBy("group").agg(*sums).orderBy("group")


def unattributed(samples: DataFrame) -> DataFrame:
    """reason, topic, client_id, host, messages, bytes of what has no group."""
    keys = ["reason", "topic", "client_id", "host"]
    return samples.where(F.col("group").isNull()).groupBy(*keys).agg(*_sent()).orderBy(*keys)


def _sent() -> tuple[Column, Column]:
    return F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")


def _newly_covered() -> Column:
    """Offsets of the row that no row before it (by first offset) covers."""
    before = (
        Window.partitionBy(*_CONSUMER).orderBy("first_offset", "last_offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    nothing_covered = F.col("first_offset") - 1
    covered_to = F.coalesce(F.max("last_offset").over(before), nothing_covered)
    return F.greatest(F.col("last_offset") - F.greatest(covered_to, nothing_covered), F.lit(0))
