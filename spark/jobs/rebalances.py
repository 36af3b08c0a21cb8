"""Rebalances: number, duration, causes, triggering members and cost; storms, flapping members, advice.

The cost of a rebalance is the sum over partitions of the time in which no member consumed them, as in the table
(docs/tables.md). Medians and 99th percentiles are nearest ranks: times that were measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.actors.tables.rebalance_entry import Ending
from muster.actors.tables.schemas.groups import GROUP_EVENTS
from muster.actors.tables.schemas.rebalances import REBALANCES
from muster.spark.jobs.job import Job, Options, Plot, Section
from muster.spark.jobs.rebalance_advice import advice
from muster.spark.jobs.shared.buckets import step_of
from muster.spark.jobs.shared.membership import FLAP_RULES, comings_and_goings, flapping, returns
from muster.spark.jobs.shared.waits import WAITED_MS, awaited, lost_by_trigger
from muster.spark.jobs.storms import STORM_RULES, storms

_ENDINGS = (Ending.STABLE, Ending.EMPTY, Ending.RESTARTED, Ending.ABORTED)
_MS_PER_HOUR = 3_600_000


def per_group(rebalances: DataFrame, *, start: datetime | None = None, end: datetime | None = None) -> DataFrame:
    """Return group, rebalances, stable, empty, restarted, aborted (how they ended), per_hour, median_seconds,
    p99_seconds, max_seconds (from begin to end), lost_partition_seconds (null: not known), most_members, cause (of the
    most), cause_rebalances.

    ``per_hour`` is over the time from ``start`` to ``end``; if one is missing, from the first rebalance of any group or
    to the last one, and over an hour at least. Most expensive groups first.
    """
    by_cause = rebalances.withColumn("of_cause", F.count("*").over(Window.partitionBy("group", "cause")))
    groups = by_cause.groupBy("group").agg(
        F.count("*").alias("rebalances"),
        *(F.count_if(F.col("ending") == ending.value).alias(ending.value) for ending in _ENDINGS),
        F.min(F.unix_millis("began")).alias("first_ms"),
        F.max(F.unix_millis("ended")).alias("last_ms"),
        *_durations(),
        _lost_seconds(),
        F.max(F.greatest("members_before", "members_after")).alias("most_members"),
        F.max_by("cause", F.struct("of_cause", "cause")).alias("cause"),
        F.max("of_cause").alias("cause_rebalances"),
    )
    everybody = Window.partitionBy()  # over one row per group
    from_ms = F.min("first_ms").over(everybody) if start is None else F.lit(_ms(start))
    to_ms = F.max("last_ms").over(everybody) if end is None else F.lit(_ms(end))
    counts = [name for name in groups.columns if name not in ("first_ms", "last_ms")]
    place = counts.index("median_seconds")
    span_ms = (
        to_ms - from_ms if start is not None and end is not None else F.greatest(to_ms - from_ms, F.lit(_MS_PER_HOUR))
    )
    per_hour = F.try_divide(F.col("rebalances") * _MS_PER_HOUR, span_ms).alias("per_hour")
    return groups.select(*counts[:place], per_hour, *counts[place:]).orderBy(
        F.col("lost_partition_seconds").desc(), F.col("rebalances").desc(), "group"
    )


def total(groups: DataFrame, *troubled: DataFrame) -> DataFrame:
    """Sum up in one row: groups, rebalances, per_hour, lost_partition_seconds of all rows of :func:`per_group`, and
    troubled_groups: how many groups the frames ``troubled`` name."""
    sums = ("rebalances", "per_hour", "lost_partition_seconds")
    summed = groups.agg(F.count("*").alias("groups"), *(F.sum(name).alias(name) for name in sums))
    named = reduce(DataFrame.unionByName, (frame.select("group") for frame in troubled))
    return summed.crossJoin(named.agg(F.count_distinct("group").alias("troubled_groups")))


def per_cause(rebalances: DataFrame) -> DataFrame:
    """Return group, cause, rebalances, share (of the group's), median_seconds, p99_seconds, max_seconds,
    lost_partition_seconds."""
    counted = rebalances.groupBy("group", "cause").agg(F.count("*").alias("rebalances"), *_durations(), _lost_seconds())
    share = F.col("rebalances") / F.sum("rebalances").over(Window.partitionBy("group"))
    return counted.select("group", "cause", "rebalances", share.alias("share"), *counted.columns[3:]).orderBy(
        F.col("rebalances").desc(), "group", "cause"
    )


def triggering_members(rebalances: DataFrame) -> DataFrame:
    """Return group, client_id, host, group_instance_id, rebalances (that it caused), share (of the group's),
    member_ids, cause (the last one), reason (the last that it gave), waited_rebalances (that waited for it, more than
    :data:`muster.spark.jobs.shared.waits.WAITED_MS`), waited_seconds (the longest wait), lost_partition_seconds; most
    expensive first.

    A rebalance that waited so long for a member is paid by it, whoever triggered it. Rebalances that no single member
    triggered, and that waited for none, do not count.
    """
    by = ["group", "client_id", "host", "group_instance_id"]
    of_group = F.count("*").over(Window.partitionBy("group")).alias("of_group")
    common = ["group", "began", "of_group"]
    rows = rebalances.select("*", of_group, awaited().alias("awaited"))
    triggered = rows.where("`culprit` IS NOT NULL").select(
        *common,
        "culprit.*",
        "cause",
        "reason",
        F.lit(1).alias("caused"),
        F.lit(None).cast("long").alias("held_ms"),
        lost_by_trigger().alias("lost_partition_ms"),
    )
    paid = F.when(~F.col("culprit.member_id").eqNullSafe(F.col("awaited.member_id")), F.col("lost_partition_ms"))
    waited = rows.where("awaited IS NOT NULL").select(
        *common,
        *(F.col(f"awaited.{name}") for name in ("member_id", *by[1:])),
        *(F.lit(None).cast("string").alias(name) for name in ("cause", "reason")),
        F.lit(0).alias("caused"),
        "awaited.held_ms",
        paid.alias("lost_partition_ms"),
    )
    return (
        triggered.unionByName(waited)
        .groupBy(*by)
        .agg(
            F.sum("caused").alias("rebalances"),
            (F.sum("caused") / F.max("of_group")).alias("share"),
            F.count_distinct("member_id").alias("member_ids"),
            F.max_by("cause", F.when(F.col("cause").isNotNull(), F.col("began"))).alias("cause"),
            F.max_by("reason", F.when(F.col("reason").isNotNull(), F.col("began"))).alias("reason"),
            F.count("held_ms").alias("waited_rebalances"),
            (F.max("held_ms") / 1000).alias("waited_seconds"),
            _lost_seconds(),
        )
        .orderBy(F.col("lost_partition_seconds").desc(), F.col("rebalances").desc(), *by)
    )


def longest(rebalances: DataFrame) -> DataFrame:
    """Return group, began, seconds, cause, client_id, host (of the triggering member), reason, members,
    rebalance_protocol, ending, lost_partition_seconds; the longest first."""
    return rebalances.select(
        "group",
        "began",
        (_duration_ms() / 1000).alias("seconds"),
        "cause",
        "culprit.client_id",
        "culprit.host",
        "reason",
        F.coalesce("members_after", "members_before").alias("members"),
        "rebalance_protocol",
        "ending",
        (F.col("lost_partition_ms") / 1000).alias("lost_partition_seconds"),
    ).orderBy(F.col("seconds").desc(), "group", "began")


def lost_by_partition(rebalances: DataFrame) -> DataFrame:
    """Return group, topic, partition, rebalances (in which its consumption paused), lost_seconds; most first.

    A row of the table names its 100 longest partitions, so beyond that, the sum is less than the group's.
    """
    stood = rebalances.select("group", F.explode("partitions").alias("still"))
    by = ["group", "topic", "partition"]
    return (
        stood.select("group", "still.*")
        .groupBy(*by)
        .agg(F.count("*").alias("rebalances"), (F.sum("ms") / 1000).alias("lost_seconds"))
        .orderBy(F.col("lost_seconds").desc(), *by)
    )


def over_time(rebalances: DataFrame, *, seconds: int) -> DataFrame:
    """Return bucket (its start), group, rebalances (that began in it), lost_partition_seconds (of these)."""
    bucket = step_of(F.col("began"), seconds).start.alias("bucket")
    return (
        rebalances.select(bucket, "group", "lost_partition_ms")
        .groupBy("bucket", "group")
        .agg(F.count("*").alias("rebalances"), _lost_seconds())
        .orderBy("group", "bucket")
    )


def _durations() -> tuple[Column, ...]:
    seconds = _duration_ms()
    return (
        (F.percentile_approx(seconds, 0.5) / 1000).alias("median_seconds"),
        (F.percentile_approx(seconds, 0.99) / 1000).alias("p99_seconds"),
        (F.max(seconds) / 1000).alias("max_seconds"),
    )


def _duration_ms() -> Column:
    """Return the duration, never negative, as it would be if the coordinator's clock was set back meanwhile."""
    return F.greatest(F.unix_millis("ended") - F.unix_millis("began"), F.lit(0))


def _lost_seconds() -> Column:
    """Return null if unknown for all: assignments of another protocol type than consumer are not known."""
    return (F.sum("lost_partition_ms") / 1000).alias("lost_partition_seconds")


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def sections(tables: Mapping[str, DataFrame], options: Options) -> Sequence[Section]:
    rebalances, events = (options.of_groups(tables[name]) for name in (REBALANCES, GROUP_EVENTS))
    changes = comings_and_goings(rebalances, events)
    returned = returns(changes, rejoin_seconds=FLAP_RULES.rejoin_seconds)
    flaps, found_storms = flapping(returned).persist(), storms(rebalances).persist()  # a row per client, or storm
    until = options.now if options.end is None and options.start is not None else options.end
    groups = per_group(rebalances, start=options.start, end=until)
    return [
        Section(
            "groups",
            "Rebalances per group, most expensive first",
            groups.limit(options.top),
            "lost_partition_seconds: the sum of the consumption pauses of all partitions.",
            total=total(groups, found_storms, flaps),
        ),
        Section("causes", "Why groups rebalanced", per_cause(rebalances).limit(options.top)),
        Section(
            "culprits",
            "Clients that triggered rebalances, or that these waited for",
            triggering_members(rebalances).limit(options.top),
            f"A rebalance that waited more than {WAITED_MS / 1000:g} s for a member's JoinGroup is paid by this one. "
            "By instance id, client id and host, because member ids change.",
        ),
        Section(
            "storms",
            "Storms",
            found_storms.limit(options.top),
            f"{STORM_RULES.rebalances} or more rebalances of a group within {STORM_RULES.within_minutes:g} minutes; "
            "the most frequent cause and triggering member.",
        ),
        Section(
            "flapping",
            "Members that flap",
            flaps.limit(options.top),
            f"Clients that came back {FLAP_RULES.returns} times or more within {FLAP_RULES.within_minutes} minutes, "
            "for each instance that they run.",
        ),
        Section(
            "advice",
            "Advice, with the evidence for it",
            advice(rebalances, changes, returned, flaps).limit(options.top),
        ),
        Section("longest", "The longest rebalances", longest(rebalances).limit(options.top)),
        Section("partitions", "Partitions whose consumption paused", lost_by_partition(rebalances).limit(options.top)),
        Section(
            "over_time",
            "Rebalances over time",
            over_time(rebalances, seconds=options.bucket_seconds),
            plot=Plot(
                kind="lines",
                x=("bucket",),
                y="rebalances",
                y_label="rebalances",
                series=("group",),
                absent_is_zero=True,
            ),
        ),
    ]


JOB = Job(
    name="rebalances",
    title="Rebalances of groups: rate, causes, triggering members, cost and remedies",
    tables=(REBALANCES, GROUP_EVENTS),
    sections=sections,
)
