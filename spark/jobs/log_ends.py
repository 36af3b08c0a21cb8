"""Where a log's end stood at a moment, and when it passed an offset: questions to the table ``end_offsets``.

The table is thinned: a row says where the log stood at ``ts``, and there is none while it does not move. What lies
between two rows was appended within the flush window before the later one (``metrics.end.offsets.flush.ms``), the last
of it at ``last_append``. Both answers interpolate linearly within that window and nowhere else, so they are wrong by at
most its length: :func:`append_times` gives the bound for each.

A row is sought by one sort of both sides and window functions over it (an as-of join), never by a join on a range.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

LATE_ROUNDS = 2
"""A round of the log actor that comes late covers more than its flush window: as long as this many are believed."""
CLOCK_SKEW_MS = 5_000
"""How far the clocks of two owners of a partition are believed to be apart."""

_LOG = ["topic", "partition"]
_END = ("at_ms", "log_start", "log_end", "from_ms", "to_ms", "exact", "life")


def log_ends(end_offsets: DataFrame, *, flush_ms: int) -> DataFrame:
    """topic, partition, at_ms, log_start, log_end, from_ms, to_ms, exact, life: a row per row of ``end_offsets``.

    ``to_ms``: when the last record before ``log_end`` was appended, at the latest (``exact``: just then). What was
    appended since the row before came after ``from_ms``, which is null in the first row: nobody knows how old its
    records are. ``life`` counts how often the topic was deleted and created again, which shows as a log end that
    falls.

    A row of an earlier leader epoch right behind one of a later epoch was written by a clock ahead; it is left out.
    """
    rows = end_offsets.select(
        *_LOG,
        "epoch",
        F.unix_millis("ts").alias("at_ms"),
        F.col("log_start_offset").alias("log_start"),
        F.col("log_end_offset").alias("log_end"),
        F.unix_millis("last_append").alias("last_append_ms"),
    )
    order = Window.partitionBy(*_LOG).orderBy("at_ms", "epoch", "log_end")
    ahead = (F.lag("epoch").over(order) > F.col("epoch")) & (
        F.col("at_ms") - F.lag("at_ms").over(order) <= CLOCK_SKEW_MS
    )
    rows = rows.withColumn("ahead", F.coalesce(ahead, F.lit(False))).where(~F.col("ahead"))
    fell = F.lag("log_end").over(order) > F.col("log_end")
    rows = rows.withColumn("fell", F.coalesce(fell, F.lit(False)).cast("int"))
    rows = rows.withColumn("life", F.sum("fell").over(order.rowsBetween(Window.unboundedPreceding, 0)))
    to_ms = F.least(F.col("last_append_ms"), F.col("at_ms"))  # least skips null
    before_ms = F.lag("at_ms").over(Window.partitionBy(*_LOG, "life").orderBy("at_ms", "epoch", "log_end"))
    since_ms = F.when(before_ms.isNotNull(), F.greatest(before_ms, to_ms - LATE_ROUNDS * flush_ms))
    return rows.select(
        *_LOG,
        *_END[:3],
        F.when(since_ms.isNotNull(), F.least(since_ms, to_ms)).alias("from_ms"),
        to_ms.alias("to_ms"),
        F.col("last_append_ms").isNotNull().alias("exact"),
        "life",
    )


def newest(ends: DataFrame) -> DataFrame:
    """topic, partition, log_start, log_end, life, seen_ms: the last row of each log of :func:`log_ends`."""
    last = F.max_by(F.struct("log_start", "log_end", "life", F.col("at_ms").alias("seen_ms")), "at_ms")
    return ends.groupBy(*_LOG).agg(last.alias("last")).select(*_LOG, "last.*")


def with_log_end_at(rows: DataFrame, ends: DataFrame, moment_ms: str) -> DataFrame:
    """``rows`` (topic, partition, ...) and ``log_end_then``: where the log's end stood at that column's moment.

    Null if that is before the log's first row. After the last row it stands where that one says.
    """
    both = _beside(rows, ends, key=F.col(moment_ms), end_key=F.col("at_ms"))
    before, after = _neighbours(both, Window.partitionBy(*_LOG).orderBy("key", "side", "end.log_end"))
    share = (F.col("key") - F.col("after.from_ms")) / (F.col("after.to_ms") - F.col("after.from_ms"))
    grown = F.col("after.log_end") - F.col("before.log_end")
    then = (
        F.when(F.col("after.life").isNull() | (F.col("after.life") != F.col("before.life")), F.col("before.log_end"))
        .when(F.col("key") >= F.col("after.to_ms"), F.col("after.log_end"))
        .when(F.col("key") <= F.col("after.from_ms"), F.col("before.log_end"))
        .otherwise(F.col("before.log_end") + F.floor(grown * share))
    )
    placed = both.select("row", "key", before.alias("before"), after.alias("after"))
    return placed.where(F.col("row").isNotNull()).select("row.*", then.alias("log_end_then"))


def append_times(rows: DataFrame, ends: DataFrame, offset: str) -> DataFrame:
    """``rows`` (topic, partition, life, ...) and when the record at that column's offset was appended.

    ``appended_ms`` is null if the log's end has not passed the offset. It is off by at most ``appended_error_ms``,
    which is null if the log had passed the offset in its first row already: then it was appended at ``appended_ms``
    or before. Only logs of the same ``life`` are asked.
    """
    both = _beside(rows, ends, key=F.col(offset), end_key=F.col("log_end"), keys=[*_LOG, "life"])
    order = Window.partitionBy(*_LOG, "life").orderBy("key", "side", "end.at_ms")
    before, after = _neighbours(both, order)
    window_ms = F.col("after.to_ms") - F.col("after.from_ms")
    share = (F.col("key") + 1 - F.col("before.log_end")) / (F.col("after.log_end") - F.col("before.log_end"))
    known = F.col("before").isNotNull() & F.col("after.from_ms").isNotNull()
    last = F.col("key") + 1 == F.col("after.log_end")
    placed = both.select("row", "key", before.alias("before"), after.alias("after"))
    return placed.where(F.col("row").isNotNull()).select(
        "row.*",
        F.when(last | ~known, F.col("after.to_ms"))
        .otherwise(F.col("after.from_ms") + F.floor(window_ms * share))
        .alias("appended_ms"),
        F.when(last & F.col("after.exact"), F.lit(0).cast("long")).when(known, window_ms).alias("appended_error_ms"),
    )


def _beside(
    rows: DataFrame,
    ends: DataFrame,
    *,
    key: Column,
    end_key: Column,
    keys: list[str] = _LOG,
) -> DataFrame:
    """Both in one frame: ``keys``, key, side (ends come first where keys are equal), row or end (a struct)."""
    end = F.struct(*_END)
    questions = rows.select(
        *keys,
        key.cast("long").alias("key"),
        F.lit(1).alias("side"),
        F.struct(*rows.columns).alias("row"),
        F.lit(None).cast(ends.select(end.alias("end")).schema["end"].dataType).alias("end"),
    )
    row_type = questions.schema["row"].dataType
    answers = ends.select(
        *keys,
        end_key.cast("long").alias("key"),
        F.lit(0).alias("side"),
        F.lit(None).cast(row_type).alias("row"),
        end.alias("end"),
    )
    return questions.unionByName(answers)


def _neighbours(both: DataFrame, order: WindowSpec) -> tuple[Column, Column]:
    """The nearest end before a row, or beside it, and the nearest one after it."""
    before = F.last("end", ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, 0))
    after = F.first("end", ignorenulls=True).over(order.rowsBetween(1, Window.unboundedFollowing))
    return before, after
