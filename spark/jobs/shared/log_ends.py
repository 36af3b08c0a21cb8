"""Log ends at a moment, and times at which they passed an offset, from the table ``end_offsets``.

The table is thinned: a row gives the log's state at ``ts``, and there is none while it does not change. Records between
two rows were appended within the flush window before the later one (``metrics.end.offsets.flush.ms``), the last of them
at ``last_append``. Both functions interpolate linearly within that window and nowhere else, so the error is at most its
length: :func:`append_times` returns the bound for each.

Rows are found by one sort of both sides and window functions over it (an as-of join), never by a join on a range. The
end after a row is taken from the end before it, which names its next: a frame that reaches to the end of the partition
(``UNBOUNDED FOLLOWING``) would work, too, but Spark evaluates it again for each row, which takes quadratic time.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

LATE_ROUNDS = 2
"""Flush windows in a late round of the log actor, which covers more than one: at most this many are assumed."""
CLOCK_SKEW_MS = 5_000
"""Largest assumed difference between the clocks of two owners of a partition."""

_LOG = ["topic", "partition"]
_PASSED = ("at_ms", "log_end", "from_ms", "to_ms", "exact", "life")
_END = (*_PASSED, "number", "next")


def log_ends(end_offsets: DataFrame, *, flush_ms: int) -> DataFrame:
    """Return topic, partition, at_ms, log_start, log_end, from_ms, to_ms, exact, life, number, next: per row of the
    table.

    ``to_ms``: when the last record before ``log_end`` was appended, at the latest (``exact``: exactly then). Records
    since the previous row were appended after ``from_ms``, which is null in the first row: the age of its records is
    unknown. ``life`` counts how often the topic was deleted and created again, which shows as a log end that decreases.
    ``number`` counts the log's rows, in order; ``next`` is its next row, as a struct: null after the last.

    A row of an earlier leader epoch shortly after one of a later epoch was written by a fast clock; it is left out.
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
    latest = F.max(F.struct("epoch", "at_ms")).over(order.rowsBetween(Window.unboundedPreceding, -1))
    ahead = (latest["epoch"] > F.col("epoch")) & (F.col("at_ms") - latest["at_ms"] <= CLOCK_SKEW_MS)
    rows = rows.withColumn("ahead", F.coalesce(ahead, F.lit(False))).where(~F.col("ahead"))
    rows = rows.withColumn("before", F.lag(F.struct("at_ms", "log_end")).over(order))
    rows = rows.withColumn("fell", F.coalesce(F.col("before.log_end") > F.col("log_end"), F.lit(False)))
    before_ms = F.when(~F.col("fell"), F.col("before.at_ms"))
    to_ms = F.least(F.col("last_append_ms"), F.col("at_ms"))  # least skips null
    since_ms = F.when(before_ms.isNotNull(), F.greatest(before_ms, to_ms - LATE_ROUNDS * flush_ms))
    passed = rows.select(
        *_LOG,
        "epoch",
        "log_start",
        "at_ms",
        "log_end",
        F.when(since_ms.isNotNull(), F.least(since_ms, to_ms)).alias("from_ms"),
        to_ms.alias("to_ms"),
        F.col("last_append_ms").isNotNull().alias("exact"),
        F.sum(F.col("fell").cast("int")).over(order.rowsBetween(Window.unboundedPreceding, 0)).alias("life"),
        F.row_number().over(order).alias("number"),
    )
    return passed.withColumn("next", F.lead(F.struct(*_PASSED)).over(order)).drop("epoch")


def newest(ends: DataFrame) -> DataFrame:
    """Return topic, partition, log_start, log_end, life: the last row of each log of :func:`log_ends`."""
    last = F.max_by(F.struct("log_start", "log_end", "life"), "number")
    return ends.groupBy(*_LOG).agg(last.alias("last")).select(*_LOG, "last.*")


def with_log_end_at(rows: DataFrame, ends: DataFrame, moment_ms: str) -> DataFrame:
    """Return ``rows`` (topic, partition, ...) with ``log_end_then``: the log's end at the moment in that column.

    Null if that is before the log's first row, unless nothing was appended in between. After the last row it is the
    last known one.
    """
    placed = _between(_beside(rows, ends, key=F.col(moment_ms), end_key=F.col("at_ms")), _LOG)
    then = _end_between(F.col("key"), F.col("before"), F.col("after"))
    return placed.select("row.*", then.alias("log_end_then"))


def log_ends_in_steps(ends: DataFrame, grid: DataFrame) -> DataFrame:
    """Return topic, partition, at_ms, log_end_then, from :func:`with_log_end_at`, where it is known, for each step of
    ``grid`` (one row: from_ms, to_ms, step_ms; from_ms is a multiple of step_ms).

    Each row of ``ends`` knows the time until the next one, so nothing has to be sorted.
    """
    step_ms = F.col("step_ms")
    begin_ms = F.when(F.col("number") == 1, F.col("to_ms")).otherwise(F.col("at_ms"))
    until_ms = F.coalesce(F.ceil(F.col("next.at_ms") / step_ms) * step_ms - step_ms, "last_ms")
    bounds = grid.select(F.col("from_ms").alias("first_ms"), F.col("to_ms").alias("last_ms"), "step_ms")
    spans = ends.crossJoin(F.broadcast(bounds)).withColumns(
        {
            "first": F.greatest("first_ms", F.ceil(begin_ms / step_ms) * step_ms).cast("long"),
            "last": F.least("last_ms", until_ms).cast("long"),
        }
    )
    key = F.col("key")
    then = F.when(key < F.col("at_ms"), F.col("log_end")).otherwise(
        _end_between(key, F.struct(*_PASSED), F.col("next"))
    )
    return (
        spans.where("first <= last")
        .select(*_LOG, *_PASSED, "next", F.explode(F.sequence("first", "last", step_ms)).alias("key"))
        .select(*_LOG, key.alias("at_ms"), then.alias("log_end_then"))
        .where("log_end_then IS NOT NULL")
    )


def _end_between(key: Column, before: Column, after: Column) -> Column:
    """Return the log's end at the moment ``key`` (ms), from the nearest ends."""
    share = (key - after["from_ms"]) / (after["to_ms"] - after["from_ms"])
    grown = after["log_end"] - before["log_end"]
    return (
        F.when(after["life"].isNull() | (after["life"] != before["life"]), before["log_end"])
        .when(key >= after["to_ms"], after["log_end"])
        .when(key <= after["from_ms"], before["log_end"])
        .otherwise(before["log_end"] + F.floor(grown * share))
    )


def append_times(rows: DataFrame, ends: DataFrame, offset: str) -> DataFrame:
    """Return ``rows`` (topic, partition, life, ...) with the append time of the record at the offset in that column.

    ``appended_ms`` is null if the log's end has not passed the offset. Its error is at most ``appended_error_ms``,
    which is null if the log had already passed the offset in its first row: then it was appended at ``appended_ms`` or
    before. Only logs of the same ``life`` are considered.
    """
    keys = [*_LOG, "life"]
    placed = _between(_beside(rows, ends, key=F.col(offset), end_key=F.col("log_end"), keys=keys), keys)
    placed = placed.withColumn("after", F.when(F.col("after.life") == F.col("row.life"), F.col("after")))
    window_ms = F.col("after.to_ms") - F.col("after.from_ms")
    share = (F.col("key") + 1 - F.col("before.log_end")) / (F.col("after.log_end") - F.col("before.log_end"))
    known = F.col("before").isNotNull() & F.col("after.from_ms").isNotNull()
    last = F.col("key") + 1 == F.col("after.log_end")
    return placed.select(
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
    """Return both in one frame: ``keys``, key, side (ends come first if keys are equal), row or end (a struct)."""
    end = F.struct(*_END)
    queries = rows.select(
        *keys,
        key.cast("long").alias("key"),
        F.lit(1).alias("side"),
        F.struct(*rows.columns).alias("row"),
        F.lit(None).cast(ends.select(end.alias("end")).schema["end"].dataType).alias("end"),
    )
    row_type = queries.schema["row"].dataType
    results = ends.select(
        *keys,
        end_key.cast("long").alias("key"),
        F.lit(0).alias("side"),
        F.lit(None).cast(row_type).alias("row"),
        end.alias("end"),
    )
    return queries.unionByName(results)


def _between(both: DataFrame, keys: list[str]) -> DataFrame:
    """Return row, key, before (the nearest end before or at the row), after (the nearest one after it)."""
    order = Window.partitionBy(*keys).orderBy("key", "side", "end.number")
    so_far, all_of_them = (order.rowsBetween(Window.unboundedPreceding, to) for to in (0, Window.unboundedFollowing))
    seen = both.select(
        "row",
        "key",
        F.last("end", ignorenulls=True).over(so_far).alias("before"),
        F.first("end", ignorenulls=True).over(all_of_them).alias("first"),
    )
    first = F.when(F.col("first").isNotNull(), F.struct(*(F.col(f"first.{name}") for name in _PASSED)))
    after = F.when(F.col("before").isNotNull(), F.col("before.next")).otherwise(first)
    return seen.where(F.col("row").isNotNull()).select("row", "key", "before", after.alias("after"))
