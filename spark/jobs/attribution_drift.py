"""Drift: the offsets that a group has committed past, compared with those attributed to it.

A group that commits from o1 to o2 has read the records between, so the gateways sent them; if not under the group's
name, they sent them without a group, or only to others, or the group skipped them (a reset, an admin's commit, a read
before the table begins). This needs no label, registration or connection. The reverse, more attributed than committed,
is read and not committed yet.

Both sides are compared as sets of offsets, so that a record sent twice counts once. Offsets are converted to bytes with
the mean size per offset of the samples that begin in the same block of 4,096 offsets of the partition, for all readers:
an estimate, exact if all records have one size. Offsets below the first one that the table has for the partition are
left out.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.actors.tables.schemas.minutes import BLOCK_OFFSETS
from muster.spark.jobs.attribution_holes import INTERNAL
from muster.spark.jobs.shared.runs import merged_runs
from muster.spark.jobs.shared.sent import Sent

_PLACE = ("topic", "partition")
_GROUP = ("group", *_PLACE)
_KINDS = ("implied", "attributed", "unattributed", "sent")
_BYTES = ("bytes", "unattributed_bytes", "sent_bytes")


def drift(samples: DataFrame, commits: DataFrame) -> DataFrame:
    """Return one row per group and partition with commits; the most missing bytes first.

    group, topic, partition; implied_offsets and implied_bytes (committed past), attributed_offsets and
    attributed_bytes (sent under the group's name), missing_offsets and missing_bytes (implied, not attributed), of
    those unattributed_bytes (sent without a group) and skipped_bytes (never sent), ahead_bytes (attributed, not
    implied), missing_share, and as cause the largest part of what is missing: ``none``, ``unattributed``,
    ``skipped``, ``other_groups_only``.
    """
    return drift_of(Sent(samples), commits)


def drift_of(everything: Sent, commits: DataFrame) -> DataFrame:
    """Return :func:`drift` from ``everything`` that was sent."""
    consumed = everything.where(lambda rows: rows.where(F.coalesce("reason", F.lit("")) != INTERNAL))
    sent = merged_runs(consumed.runs(*_GROUP).select(*_GROUP, "first_offset", "last_offset"), _GROUP)
    sent = sent.persist()  # few rows, used three times; released after the job
    segments = _segments(_changes(implied(commits), sent, _densities(consumed.blocks(*_PLACE))))
    return _verdicts(_sums(segments)).orderBy(F.desc("missing_bytes"), *_GROUP)


def implied(commits: DataFrame) -> DataFrame:
    """Return group, topic, partition, first_offset, last_offset of the runs that the group's commits went past."""
    steps = commits.where((F.col("kind") == "commit") & (F.col("offset") > F.col("previous"))).select(
        *_GROUP, F.col("previous").alias("first_offset"), (F.col("offset") - 1).alias("last_offset")
    )
    return merged_runs(steps, _GROUP)


def _densities(blocks: DataFrame) -> DataFrame:
    """Return topic, partition, offset (where a block begins), density (bytes per offset)."""
    density = (F.sum("bytes") / F.sum("offsets")).alias("density")
    offset = (F.col("block") * BLOCK_OFFSETS).alias("offset")
    return blocks.groupBy(*_PLACE, "block").agg(density).select(*_PLACE, offset, "density")


def _changes(implied: DataFrame, sent: DataFrame, densities: DataFrame) -> DataFrame:
    """Return the changes at each offset of each partition. Of a group: the changes in the number of its runs of
    ``implied`` and ``attributed``. Of the partition, without a group: those of ``unattributed`` and ``sent``, and the
    density from there."""
    everybody = merged_runs(sent.select(*_PLACE, "first_offset", "last_offset"), _PLACE)
    known_from = everybody.groupBy(*_PLACE).agg(F.min("first_offset").alias("known_from"))
    groups = implied.select(*_GROUP).distinct()
    places = groups.select(*_PLACE).distinct()
    unattributed = sent.where(F.col("group").isNull())
    committed = (
        implied.join(known_from, [*_PLACE], "left")
        .where(F.col("known_from").isNull() | (F.col("last_offset") >= F.col("known_from")))
        .withColumn("first_offset", F.greatest("first_offset", "known_from"))
    )
    parts = [
        groups.select(*_change(F.lit(0), None, 0)),  # so that a group without any runs has a row, too
        _edges(committed, "implied"),
        _edges(sent.join(groups, [*_GROUP], "left_semi"), "attributed"),
        _edges(_of_partition(unattributed.join(places, [*_PLACE], "left_semi")), "unattributed"),
        _edges(_of_partition(everybody.join(places, [*_PLACE], "left_semi")), "sent"),
        _of_partition(densities.join(places, [*_PLACE], "left_semi")).select(
            *_change(F.col("offset"), None, 0, F.col("density"))
        ),
    ]
    union = parts[0]
    for part in parts[1:]:
        union = union.unionByName(part)
    return union


def _of_partition(rows: DataFrame) -> DataFrame:
    return rows.withColumn("group", F.lit(None).cast("string"))


def _edges(runs: DataFrame, kind: str) -> DataFrame:
    """Return one row at the start of each run and one after its end."""
    begins = runs.select(*_change(F.col("first_offset"), kind, 1))
    return begins.unionByName(runs.select(*_change(F.col("last_offset") + 1, kind, -1)))


def _change(offset: Column, kind: str | None, change: int, density: Column | None = None) -> list[Column | str]:
    deltas = [F.lit(change if kind == name else 0).alias(name) for name in _KINDS]
    known = F.lit(None) if density is None else density
    return [*_GROUP, offset.cast("long").alias("offset"), *deltas, known.cast("double").alias("density")]


def _segments(changes: DataFrame) -> DataFrame:
    """Return for each group the ranges of offsets without a change: whether they are ``implied`` and ``attributed``,
    their offsets and bytes, and of these the ``unattributed`` and the ``sent`` ones.

    The bytes up to an offset are those of its partition, which is gone through once for all its groups.
    """
    ordered = Window.partitionBy(*_GROUP).orderBy("offset")
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    states = [(F.sum(kind).over(so_far) > 0).alias(kind) for kind in ("implied", "attributed")]
    of_groups = _with_bytes_so_far(changes).where(F.col("group").isNotNull())

    def ahead(name: str) -> Column:
        return F.coalesce(F.lead(name).over(ordered) - F.col(name), F.lit(0))

    sizes = (ahead(name).alias(name) for name in _BYTES)
    return of_groups.select(*_GROUP, *states, ahead("offset").alias("offsets"), *sizes)


def _with_bytes_so_far(changes: DataFrame) -> DataFrame:
    """Add the bytes of the partition below the offset, and of these the unattributed and the sent ones."""
    ordered = Window.partitionBy(*_PLACE).orderBy("offset")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    density = F.coalesce(F.last("density", ignorenulls=True).over(before), F.lit(0.0))
    length = F.coalesce(F.col("offset") - F.lag("offset").over(ordered), F.lit(0))
    states = {f"is_{kind}": F.sum(kind).over(before) > 0 for kind in ("unattributed", "sent")}
    measured = changes.select(
        "*", (length * density).alias("range_bytes"), *(of.alias(name) for name, of in states.items())
    )
    parts = {"bytes": F.col("range_bytes")} | {
        f"{kind}_bytes": F.when(F.col(f"is_{kind}"), F.col("range_bytes")).otherwise(0.0)
        for kind in ("unattributed", "sent")
    }
    return measured.select(*changes.columns, *(F.sum(part).over(so_far).alias(name) for name, part in parts.items()))


def _sums(segments: DataFrame) -> DataFrame:
    implied, attributed = F.col("implied"), F.col("attributed")
    missing = implied & ~attributed
    return segments.groupBy(*_GROUP).agg(
        _sum("offsets", implied).alias("implied_offsets"),
        _sum("bytes", implied).alias("implied_bytes"),
        _sum("offsets", attributed).alias("attributed_offsets"),
        _sum("bytes", attributed).alias("attributed_bytes"),
        _sum("offsets", missing).alias("missing_offsets"),
        _sum("bytes", missing).alias("missing_bytes"),
        _sum("unattributed_bytes", missing).alias("unattributed_bytes"),
        _sum(F.col("bytes") - F.col("sent_bytes"), missing).alias("skipped_bytes"),
        _sum("bytes", attributed & ~implied).alias("ahead_bytes"),
    )


def _sum(column: str | Column, condition: Column) -> Column:
    part = F.col(column) if isinstance(column, str) else column
    return F.round(F.sum(F.when(condition, part).otherwise(0))).cast("long")


def _verdicts(sums: DataFrame) -> DataFrame:
    unattributed, skipped = F.col("unattributed_bytes"), F.col("skipped_bytes")
    others = F.col("missing_bytes") - unattributed - skipped
    cause = (
        F.when(F.col("missing_offsets") == 0, "none")
        .when((unattributed >= skipped) & (unattributed >= others) & (unattributed > 0), "unattributed")
        .when((skipped >= others) | (others == 0), "skipped")
        .otherwise("other_groups_only")
    )
    share = F.when(F.col("implied_bytes") > 0, F.col("missing_bytes") / F.col("implied_bytes"))
    return sums.withColumn("missing_share", share).withColumn("cause", cause)
