"""Advice: settings that would have prevented rebalances of a group or made them cheaper, with the events as evidence.

* static membership (KIP-345): a dynamic client flaps. With a ``group.instance.id`` it may be absent for its session
  timeout without a rebalance.
* longer session timeout: sessions expired, and the same client was soon back: it was late, not dead.
* cooperative assignor (KIP-429): eager rebalances paused partitions that could have kept their owner.
* longer poll interval (KIP-62): members did not rejoin within their rebalance timeout, which is
  ``max.poll.interval.ms``, or left because of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muster.actors.group.events import Removal
from muster.actors.tables.rebalance_entry import RebalanceProtocol
from muster.spark.jobs.shared.waits import lost_by_trigger

STATIC_MEMBERSHIP = "static membership"
LONGER_SESSION_TIMEOUT = "longer session timeout"
COOPERATIVE_ASSIGNOR = "cooperative assignor"
LONGER_POLL_INTERVAL = "longer poll interval"

_POLL_REASON = r"(?i)poll[ .]?(timeout|interval)"
"""Reason of a LeaveGroup: the Java client's says "consumer poll timeout has expired." """


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRules:
    """Thresholds for giving advice."""

    expiries: int = 2
    """Expired sessions of clients that were soon back, per group."""
    poll_timeouts: int = 2
    """Members that did not poll in time, per group."""
    eager_rebalances: int = 3
    lost_partition_seconds: float = 60.0
    """Loss in eager rebalances, per group."""


ADVICE_RULES = AdviceRules()


def advice(
    rebalances: DataFrame,
    changes: DataFrame,
    returned: DataFrame,
    flaps: DataFrame,
    *,
    rules: AdviceRules = ADVICE_RULES,
) -> DataFrame:
    """Return group, advice, setting (of the client), client_id, host, occurrences, out_of, median_seconds,
    lost_partition_seconds, evidence (a sentence with these figures); the most expensive first.

    ``changes``, ``returned`` and ``flaps``: from :mod:`muster.spark.jobs.shared.membership`. ``median_seconds``: how
    long a client was absent. ``lost_partition_seconds``: of the rebalances that the advice is about; null if not known.
    ``occurrences`` and ``out_of``: returns and the rebalances that the client caused; expired sessions after which the
    client was back, and all; eager rebalances, and all; members that did not poll in time, and all that left or were
    removed.
    """
    parts = (
        _static_membership(rebalances, flaps),
        _session_timeout(changes, returned, rules),
        _cooperative(rebalances, rules),
        _poll_interval(changes, rules),
    )
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole.orderBy(
        F.col("lost_partition_seconds").desc_nulls_last(), F.col("occurrences").desc(), "group", "advice"
    )


def _static_membership(rebalances: DataFrame, flaps: DataFrame) -> DataFrame:
    caused = (
        rebalances.where("`culprit` IS NOT NULL")
        .groupBy(
            F.col("group").alias("of_group"),
            F.col("culprit.client_id").alias("of_client"),
            F.col("culprit.host").alias("of_host"),
        )
        .agg(F.count("*").alias("caused"), (F.sum(lost_by_trigger()) / 1000).alias("lost_partition_seconds"))
    )
    same = (
        (F.col("group") == F.col("of_group"))
        & F.col("client_id").eqNullSafe(F.col("of_client"))
        & F.col("host").eqNullSafe(F.col("of_host"))
    )
    dynamic = flaps.where("group_instance_id IS NULL AND client_id IS NOT NULL")
    joined = dynamic.join(caused, same, "left").withColumn("out_of", F.coalesce("caused", F.lit(0)).cast("long"))
    return joined.select(
        "group",
        *_named(STATIC_MEMBERSHIP, "group.instance.id"),
        "client_id",
        "host",
        F.col("returns").alias("occurrences"),
        "out_of",
        F.col("away_median_seconds").alias("median_seconds"),
        "lost_partition_seconds",
        F.format_string(
            "client %s at %s came back %d times under %d member ids, away for %s s in the median; it caused %d "
            "rebalances that cost %s partition-seconds",
            "client_id",
            "host",
            "returns",
            "member_ids",
            _short("away_median_seconds"),
            "out_of",
            _short("lost_partition_seconds"),
        ).alias("evidence"),
    )


def _session_timeout(changes: DataFrame, returned: DataFrame, rules: AdviceRules) -> DataFrame:
    expired = F.col("why") == Removal.SESSION_EXPIRED.value
    expiries = changes.where(expired).groupBy("group").agg(F.count("*").alias("out_of"))
    back = (
        returned.where(expired)
        .groupBy("group")
        .agg(
            F.count("*").alias("occurrences"),
            (F.percentile_approx("away_ms", 0.5) / 1000).alias("median_seconds"),
            (F.max("away_ms") / 1000).alias("longest_seconds"),
        )
        .where(F.col("occurrences") >= rules.expiries)
    )
    return back.join(expiries, "group").select(
        "group",
        *_named(LONGER_SESSION_TIMEOUT, "session.timeout.ms"),
        *_nobody(),
        "occurrences",
        "out_of",
        "median_seconds",
        F.lit(None).cast("double").alias("lost_partition_seconds"),
        F.format_string(
            "after %d of %d expired sessions the same client was back, in the median %s s later, at the latest %s s",
            "occurrences",
            "out_of",
            _short("median_seconds"),
            _short("longest_seconds"),
        ).alias("evidence"),
    )


def _cooperative(rebalances: DataFrame, rules: AdviceRules) -> DataFrame:
    is_eager = F.col("rebalance_protocol") == RebalanceProtocol.EAGER.value
    eager = (
        rebalances.groupBy("group")
        .agg(
            F.count_if(is_eager).alias("occurrences"),
            F.count("*").alias("out_of"),
            _lost_seconds(is_eager).alias("lost_partition_seconds"),
            F.max_by("protocol", F.when(is_eager, F.col("ended"))).alias("protocol"),
            F.max(F.when(is_eager, F.col("partitions_still"))).alias("most_still"),
        )
        .where(
            (F.col("occurrences") >= rules.eager_rebalances)
            & (F.col("lost_partition_seconds") >= rules.lost_partition_seconds)
        )
    )
    return eager.select(
        "group",
        *_named(COOPERATIVE_ASSIGNOR, "partition.assignment.strategy"),
        *_nobody(),
        "occurrences",
        "out_of",
        F.lit(None).cast("double").alias("median_seconds"),
        "lost_partition_seconds",
        F.format_string(
            "%d of %d rebalances were eager (%s): up to %d partitions paused, %s partition-seconds in all",
            "occurrences",
            "out_of",
            F.coalesce("protocol", F.lit("?")),
            "most_still",
            _short("lost_partition_seconds"),
        ).alias("evidence"),
    )


def _poll_interval(changes: DataFrame, rules: AdviceRules) -> DataFrame:
    late = F.col("why") == Removal.REBALANCE_TIMEOUT.value
    left = F.coalesce(F.col("reason").rlike(_POLL_REASON), F.lit(False))
    counted = (
        changes.where("change = -1")
        .groupBy("group")
        .agg(
            F.count_if(late).alias("late"),
            F.count_if(left & ~late).alias("left"),
            F.count("*").alias("out_of"),
        )
        .withColumn("occurrences", F.col("late") + F.col("left"))
        .where(F.col("occurrences") >= rules.poll_timeouts)
    )
    return counted.select(
        "group",
        *_named(LONGER_POLL_INTERVAL, "max.poll.interval.ms"),
        *_nobody(),
        "occurrences",
        "out_of",
        *(F.lit(None).cast("double").alias(name) for name in ("median_seconds", "lost_partition_seconds")),
        F.format_string(
            "of %d departed members, %d did not rejoin within their rebalance timeout and %d left because they did "
            "not poll in time; or fewer records per poll (max.poll.records)",
            "out_of",
            "late",
            "left",
        ).alias("evidence"),
    )


def _named(name: str, setting: str) -> tuple[Column, Column]:
    return F.lit(name).alias("advice"), F.lit(setting).alias("setting")


def _nobody() -> tuple[Column, Column]:
    return F.lit(None).cast("string").alias("client_id"), F.lit(None).cast("string").alias("host")


def _lost_seconds(counts: Column) -> Column:
    return F.sum(F.when(counts, F.col("lost_partition_ms"))) / 1000


def _short(column: str) -> Column:
    """Format with one decimal; a dash if unknown."""
    return F.when(F.col(column).isNotNull(), F.format_string("%,.1f", column)).otherwise("-")
