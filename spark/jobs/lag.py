"""Lag: how far each group is behind, in messages and in seconds, when it will have caught up, and Burrow's verdict.

Lag in messages counts offsets, as Kafka's tools do: a compacted topic has fewer records. Lag in seconds is the age of
the oldest unconsumed record that can still be read; its error bound is given, too
(:mod:`muster.spark.jobs.shared.log_ends`). The rules of the verdicts, and their sources:
:mod:`muster.spark.jobs.lag_verdicts`.

The clocks of coordinators, log actors and this job differ. A group's commits are ordered by the coordinator's epoch,
then by its clock; a negative age is zero; a commit beyond the known log end is no lag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.actors.tables.schemas.groups import GROUP_EVENTS
from muster.actors.tables.schemas.offsets import COMMITS, END_OFFSETS
from muster.spark.jobs.job import Job, Options, Plot, Section
from muster.spark.jobs.lag_groups import MEMBER, per_group, per_member, total
from muster.spark.jobs.lag_verdicts import (
    ENDED,
    PARTITION,
    RULES,
    STALLED,
    STOPPED,
    Rules,
    judged,
    over_window,
    severity,
)
from muster.spark.jobs.shared.departures import departures
from muster.spark.jobs.shared.log_ends import append_times, log_ends, log_ends_in_steps, newest, with_log_end_at

MAX_STEPS = 240
"""Maximum number of points of time of :func:`over_time`; beyond that, the steps get wider."""

CLOCK_SKEW_MS = 5_000
"""Longest time from its member's departure to a commit: by another coordinator's clock, or durable late."""

_COMMITTED = "commit"


def per_partition(
    commits: DataFrame, end_offsets: DataFrame, group_events: DataFrame, *, now: datetime, rules: Rules = RULES
) -> DataFrame:
    """Return one row for each partition of a group that has a committed offset, as it stands at ``now``.

    group, topic, partition, member_id, client_id, host (of the last commit that is no reset), committed (timestamp),
    offset, log_end, lag_messages (null: no log end is known), lost_messages (committed, but deleted before they were
    consumed: by retention or DeleteRecords; not in lag_messages), beyond_end_messages (committed beyond the log end),
    lag_seconds (null: the log end is not known), lag_seconds_error (the bound; null: it is that old or older),
    consumed_per_second and produced_per_second (messages, between the first and the last commit that the verdict
    uses), catch_up_seconds (null: never at the current rates, or unknown), verdict, rule, left (all members left in
    order since that commit), without_members (all left or were removed since), complete (share of the rows
    that the verdict needs).
    """
    ends = log_ends(end_offsets, flush_ms=rules.end_offsets_flush_ms)
    return _judged_partitions(commits, ends, departures(group_events), _ms(now), rules)


def _judged_partitions(
    commits: DataFrame, ends: DataFrame, departed: DataFrame, now_ms: int, rules: Rules
) -> DataFrame:
    window = over_window(with_log_end_at(recent_commits(commits, rules.intervals), ends, "at_ms"))
    placed = window.join(newest(ends), ["topic", "partition"], "left").withColumn(
        "position", F.greatest("newest.offset", "log_start")
    )
    aged = append_times(placed, ends, "position")
    behind = F.col("log_end") - F.col("position")
    lag_messages = F.when(behind < 0, 0).otherwise(behind)
    age_ms = F.greatest(now_ms - F.col("appended_ms"), F.lit(0))
    lagging = aged.withColumn("lag_messages", lag_messages).withColumn(
        "lag_ms", F.when(F.col("lag_messages") == 0, 0).when(F.col("appended_ms").isNotNull(), age_ms)
    )
    ending = _with_departure(lagging, ends, departed)
    verdicts = judged(ending, now_ms=now_ms, flush_ms=rules.commits_flush_ms, recent_ms=rules.recent_ms)
    span_s = (F.col("consumer.at_ms") - F.col("oldest.at_ms")) / 1000
    return verdicts.select(
        *PARTITION,
        *(F.col(f"consumer.{name}").alias(name) for name in MEMBER),
        F.timestamp_millis("newest.at_ms").alias("committed"),
        F.col("newest.offset").alias("offset"),
        "log_end",
        "lag_messages",
        _above_zero(F.col("log_start") - F.col("newest.offset")).alias("lost_messages"),
        _above_zero(F.col("newest.offset") - F.col("log_end")).alias("beyond_end_messages"),
        (F.col("lag_ms") / 1000).alias("lag_seconds"),
        F.when(F.col("lag_messages") == 0, 0.0).otherwise(F.col("appended_error_ms") / 1000).alias("lag_seconds_error"),
        (F.col("consumed") / span_s).alias("consumed_per_second"),
        ((F.col("consumer.log_end_then") - F.col("oldest.log_end_then")) / span_s).alias("produced_per_second"),
        "verdict",
        "rule",
        F.coalesce("departed.in_order", F.lit(False)).alias("left"),
        F.col("departed").isNotNull().alias("without_members"),
        (F.col("rows") / rules.intervals).alias("complete"),
    ).withColumn("catch_up_seconds", _catch_up())


def _with_departure(partitions: DataFrame, ends: DataFrame, departed: DataFrame) -> DataFrame:
    """Add ``departed`` (gone_ms, in_order, removal; null: the group has members, never had any, or still commits) and
    ``behind_then_ms``: the age of the oldest unconsumed record when the last member left (null: not known), whether or
    not that record still exists.
    """
    joined = partitions.join(departed, "group", "left")
    since = F.col("consumer.at_ms") <= F.col("gone_ms") + CLOCK_SKEW_MS
    gone = F.when(since, F.struct("gone_ms", "in_order", "removal"))
    rows = joined.withColumn("departed", gone).drop("gone_ms", "in_order", "removal")
    rows = rows.withColumnsRenamed({"appended_ms": "oldest_ms", "appended_error_ms": "oldest_error_ms"})
    read_to = append_times(rows, ends, "newest.offset")
    behind_ms = F.greatest(F.col("departed.gone_ms") - F.col("appended_ms"), F.lit(0))
    is_known = F.col("appended_error_ms").isNotNull()
    return (
        read_to.withColumn("behind_then_ms", F.when(is_known, behind_ms))
        .drop("appended_ms", "appended_error_ms")
        .withColumnsRenamed({"oldest_ms": "appended_ms", "oldest_error_ms": "appended_error_ms"})
    )


def recent_commits(commits: DataFrame, intervals: int) -> DataFrame:
    """Return the last rows of each group's partition, with their ``age`` (0: the newest) and ``at_ms``.

    Without rows from before the offset expired or was deleted, and without partitions that no longer have an offset.
    """
    newest_first = Window.partitionBy(*PARTITION).orderBy(F.col("epoch").desc(), F.col("at_ms").desc())
    went = F.sum((F.col("kind") != _COMMITTED).cast("int")).over(newest_first.rowsBetween(Window.unboundedPreceding, 0))
    return (
        _rows(commits)
        .select("*", F.row_number().over(newest_first).alias("place"), went.alias("went"))
        .where((F.col("place") <= intervals) & (F.col("went") == 0))  # Spark limits each group before the shuffle
        .withColumn("age", F.col("place") - 1)
        .drop("went", "place", "epoch", "kind")
    )


def gone(commits: DataFrame) -> DataFrame:
    """Return group, topic, partition, how (expired, deleted), at, offset (the last one), client_id (of the last commit;
    null: none since the table's first row): partitions without an offset since then.

    Includes groups that were deleted or continue under another name, and groups whose topic was deleted.
    """
    rows = _rows(commits)
    ever = rows.where(F.col("kind") != _COMMITTED).select(*PARTITION).distinct()  # few, however much is committed
    moment = F.struct("epoch", "at_ms")
    last = F.max_by(F.struct("kind", "at_ms", "previous"), moment)
    by = F.max_by("client_id", F.when(F.col("kind") == _COMMITTED, moment))
    return (
        rows.join(F.broadcast(ever), [*PARTITION], "left_semi")
        .groupBy(*PARTITION)
        .agg(last.alias("last"), by.alias("client_id"))
        .where(F.col("last.kind") != _COMMITTED)
        .select(
            *PARTITION,
            F.col("last.kind").alias("how"),
            F.timestamp_millis("last.at_ms").alias("at"),
            F.col("last.previous").alias("offset"),
            "client_id",
        )
        .orderBy(F.col("at").desc(), *PARTITION)
    )


def over_time(
    commits: DataFrame,
    end_offsets: DataFrame,
    *,
    step_seconds: int,
    start: datetime | None = None,
    end: datetime | None = None,
    now: datetime | None = None,
    groups: int = 20,
    rules: Rules = RULES,
) -> DataFrame:
    """Return at, group, lag_messages, partitions: the sums of the groups that lagged most, in steps up to the last row
    or ``now``, whichever is later: a lag lasts until a commit ends it.

    At most :data:`MAX_STEPS` steps: beyond that, steps are longer. Partitions count from their first commit until
    their offset is removed, whether or not they are committed in a step.
    """
    ends = log_ends(end_offsets, flush_ms=rules.end_offsets_flush_ms)
    return _lag_over_time(commits, ends, step_seconds=step_seconds, start=start, end=end, now=now, groups=groups)


def _lag_over_time(
    commits: DataFrame,
    ends: DataFrame,
    *,
    step_seconds: int,
    start: datetime | None,
    end: datetime | None,
    now: datetime | None,
    groups: int,
) -> DataFrame:
    rows = _rows(commits)
    grid = _grid(rows, ends, step_ms=step_seconds * 1000, start=start, end=end, now=now).persist()
    known = _standing_at(rows, grid).join(log_ends_in_steps(ends, grid), ["topic", "partition", "at_ms"])
    behind = F.col("log_end_then") - F.col("offset")
    sums = known.groupBy("at_ms", "group").agg(
        F.sum(F.when(behind < 0, 0).otherwise(behind)).alias("lag_messages"), F.count("*").alias("partitions")
    )
    series = sums.groupBy("group").agg(
        F.max("lag_messages").alias("most"), F.collect_list(F.struct("at_ms", "lag_messages", "partitions")).alias("of")
    )  # of MAX_STEPS steps
    most = series.orderBy(F.col("most").desc(), "group").limit(groups)
    return (
        most.select("group", F.explode("of").alias("of"))
        .select(F.timestamp_millis("of.at_ms").alias("at"), "group", "of.lag_messages", "of.partitions")
        .orderBy("group", "at")
    )


def _grid(
    rows: DataFrame,
    ends: DataFrame,
    *,
    step_ms: int,
    start: datetime | None,
    end: datetime | None,
    now: datetime | None,
) -> DataFrame:
    """Return one row: from_ms, to_ms, step_ms; none if nothing is known about the requested time."""
    bounds = rows.agg(F.min("at_ms").alias("first"), F.max("at_ms").alias("last")).crossJoin(
        ends.agg(F.max("at_ms").alias("last_end"))
    )
    from_ms = F.col("first") if start is None else F.greatest("first", F.lit(_ms(start)))
    to_ms = F.greatest("last", "last_end", *(F.lit(_ms(moment)) for moment in (now,) if moment is not None))
    to_ms = to_ms if end is None else F.least(to_ms, F.lit(_ms(end)))
    step = F.greatest(F.lit(step_ms), F.ceil((to_ms - from_ms) / MAX_STEPS / 1000) * 1000)
    return bounds.select(
        (F.floor(from_ms / step) * step).cast("long").alias("from_ms"),
        (F.ceil(to_ms / step) * step).cast("long").alias("to_ms"),
        step.cast("long").alias("step_ms"),
    ).where("from_ms <= to_ms")


def _standing_at(rows: DataFrame, grid: DataFrame) -> DataFrame:
    """Return group, topic, partition, at_ms (steps of the grid), offset (the committed one at that time, if any).

    A row of ``commits`` holds until the earliest one that is later by epoch, then clock.
    """
    latest_first = Window.partitionBy(*PARTITION).orderBy(F.col("epoch").desc(), F.col("at_ms").desc())
    until_ms = F.min("at_ms").over(latest_first.rowsBetween(Window.unboundedPreceding, -1))
    stood = rows.select(*PARTITION, "at_ms", "kind", "offset", until_ms.alias("until_ms"))
    step_ms = F.col("step_ms")
    first = F.greatest("from_ms", F.ceil(F.col("at_ms") / step_ms) * step_ms).cast("long")
    last = F.least(
        F.col("to_ms"), F.coalesce((F.ceil(F.col("until_ms") / step_ms) - 1) * step_ms, F.col("to_ms"))
    ).cast("long")
    return (
        stood.where(F.col("kind") == _COMMITTED)
        .crossJoin(F.broadcast(grid))
        .withColumns({"first": first, "last": last})
        .where("first <= last")
        .select(*PARTITION, "offset", F.explode(F.sequence("first", "last", step_ms)).alias("at_ms"))
    )


def _rows(commits: DataFrame) -> DataFrame:
    return commits.select(
        *PARTITION,
        "epoch",
        F.unix_millis("ts").alias("at_ms"),
        "kind",
        "offset",
        "lowest",
        "previous",
        "commits",
        *MEMBER,
    )


def _catch_up() -> Column:
    gain = F.col("consumed_per_second") - F.col("produced_per_second")
    moves = ~F.col("verdict").isin(ENDED, STALLED, STOPPED) & (gain > 0)
    return F.when(F.col("lag_messages") == 0, 0.0).when(moves, F.col("lag_messages") / gain)


def _above_zero(difference: Column) -> Column:
    return F.when(difference < 0, 0).otherwise(difference)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def sections(tables: Mapping[str, DataFrame], options: Options) -> Sequence[Section]:
    rules = Rules(
        intervals=options.lag_intervals,
        commits_flush_ms=options.commits_flush_ms,
        end_offsets_flush_ms=options.end_offsets_flush_ms,
    )
    commits, end_offsets = options.of_groups(tables[COMMITS]), tables[END_OFFSETS]
    departed = departures(options.of_groups(tables[GROUP_EVENTS]))
    if options.groups:
        logs = commits.select("topic", "partition").distinct()
        end_offsets = end_offsets.join(F.broadcast(logs), ["topic", "partition"], "left_semi")
    # Used five times, sorted once.
    ends = log_ends(end_offsets, flush_ms=rules.end_offsets_flush_ms).persist()
    # One row per partition of a group, for three sections: the windows are sorted once.
    partitions = _judged_partitions(commits, ends, departed, _ms(options.now), rules).persist()
    groups = per_group(partitions, rules)
    worst_first: list[str | Column] = [severity().desc(), F.col("lag_messages").desc(), *map(F.col, PARTITION)]
    return [
        Section(
            "groups",
            "Lag per group",
            groups,
            "Verdicts are Burrow's, of the worst partition; ENDED: its members left, and had read everything older "
            f"than {rules.recent_ms / 1000:g} s. No catch_up_seconds: never, as it stands, or it is unknown: there is "
            "one row of commits, or no log end.",
            total=total(groups),
        ),
        Section(
            "partitions",
            "Lag per partition, worst first",
            partitions.orderBy(worst_first).limit(options.top),
            "lag_seconds is the age of the oldest unconsumed record, give or take lag_seconds_error; no error: at "
            "least that old. lost_messages were deleted before the group consumed them.",
        ),
        Section(
            "members",
            "Lag per member, worst first",
            per_member(partitions).limit(options.top),
            "A partition counts for the member that committed it last.",
        ),
        Section(
            "over_time",
            "Lag over time",
            _lag_over_time(
                commits,
                ends,
                step_seconds=options.bucket_seconds,
                start=options.start,
                end=options.end,
                now=options.now,
                groups=options.top,
            ),
            plot=Plot(kind="lines", x=("at",), y="lag_messages", y_label="messages behind", series=("group",)),
        ),
        Section(
            "gone",
            "Offsets that expired or were deleted",
            gone(commits).limit(options.top),
            "Partitions whose offset has gone: the group or topic was deleted, or the offset expired.",
        ),
    ]


JOB = Job(
    name="lag",
    title="Lag of each group in messages and seconds, and whether it will catch up",
    tables=(COMMITS, END_OFFSETS, GROUP_EVENTS),
    sections=sections,
    history=(COMMITS, END_OFFSETS, GROUP_EVENTS),
    streamed=(COMMITS, END_OFFSETS),
)
