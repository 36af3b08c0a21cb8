"""Storms: a group that rebalances repeatedly in a short time.

A rebalance is part of a storm if it is one of ``rebalances`` successive ones of its group that began within
``within_minutes``. Such rebalances of one group are one storm as long as none begins more than ``within_minutes``
after the previous one. The start of a group is no storm: its members join one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from muster.actors.group.events import Cause
from muster.actors.group.state import GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class StormRules:
    rebalances: int = 5
    """2 or more."""
    within_minutes: float = 10
    start_seconds: float = 60
    """Time after the first member of a quiet group without members, in which joins do not count."""


STORM_RULES = StormRules()


def storms(rebalances: DataFrame, *, rules: StormRules = STORM_RULES) -> DataFrame:
    """Return group, began, ended, rebalances, per_minute, most_members, lost_partition_seconds (null: not known), the
    most frequent cause and trigger (client_id, host) with cause_rebalances and culprit_rebalances; the most expensive
    first.

    A group's rebalances are ordered by their beginning, by the clocks of its coordinators.
    """
    rows = rebalances.select(
        "group",
        F.unix_millis("began").alias("at_ms"),
        F.unix_millis("ended").alias("ended_ms"),
        "number",
        "cause",
        "culprit.client_id",
        "culprit.host",
        F.greatest("members_before", "members_after").alias("members"),
        "from_state",
        "lost_partition_ms",
    )
    order = Window.partitionBy("group").orderBy("at_ms", "number")
    within_ms = round(rules.within_minutes * 60_000)
    rows = _without_starts(rows, order, within_ms, round(rules.start_seconds * 1000))
    others = rules.rebalances - 1
    closes = F.col("at_ms") - F.lag("at_ms", others).over(order) <= within_ms
    rows = rows.withColumn("closes", F.coalesce(closes, F.lit(False)))
    rows = rows.withColumn("stormy", F.max("closes").over(order.rowsBetween(0, others)))
    rows = rows.where("stormy")
    begins = F.coalesce(F.col("at_ms") - F.lag("at_ms").over(order) > within_ms, F.lit(False)).cast("int")
    rows = rows.withColumn("begins", begins)
    rows = rows.withColumn("storm", F.sum("begins").over(order.rowsBetween(Window.unboundedPreceding, 0)))
    of_cause, of_member = (Window.partitionBy("group", "storm", *by) for by in (("cause",), ("client_id", "host")))
    named = F.col("client_id").isNotNull() | F.col("host").isNotNull()
    rows = rows.withColumns(
        {
            "of_cause": F.count("*").over(of_cause),
            "of_culprit": F.when(named, F.count("*").over(of_member)),
        }
    )
    span_minutes = (F.max("at_ms") - F.min("at_ms")) / 60_000
    return (
        rows.groupBy("group", "storm")
        .agg(
            F.timestamp_millis(F.min("at_ms")).alias("began"),
            F.timestamp_millis(F.max("ended_ms")).alias("ended"),
            F.count("*").alias("rebalances"),
            (F.count("*") / span_minutes).alias("per_minute"),
            F.max("members").alias("most_members"),
            (F.sum("lost_partition_ms") / 1000).alias("lost_partition_seconds"),
            F.max_by("cause", F.struct("of_cause", "cause")).alias("cause"),
            F.max("of_cause").alias("cause_rebalances"),
            F.max_by(F.struct("client_id", "host"), F.struct("of_culprit", "client_id", "host")).alias("culprit"),
            F.max("of_culprit").alias("culprit_rebalances"),
        )
        .withColumn("client_id", F.when(F.col("culprit_rebalances").isNotNull(), F.col("culprit.client_id")))
        .withColumn("host", F.when(F.col("culprit_rebalances").isNotNull(), F.col("culprit.host")))
        .drop("storm", "culprit")
        .orderBy(F.col("lost_partition_seconds").desc(), F.col("rebalances").desc(), "group", "began")
    )


def _without_starts(rows: DataFrame, order: WindowSpec, within_ms: int, start_ms: int) -> DataFrame:
    """Leave out joins shortly after a group's first member. A group that is empty again and again has one start."""
    at_ms, before = F.col("at_ms"), F.lag("at_ms").over(order)
    is_first = (F.col("from_state") == GroupState.EMPTY.value) & F.coalesce(at_ms - before > within_ms, F.lit(True))
    began = F.last(F.when(F.col("is_first"), at_ms), ignorenulls=True).over(order)
    timed = rows.withColumn("is_first", is_first).withColumn("since_ms", at_ms - began)
    is_start = (F.col("cause") == Cause.MEMBER_JOINED.value) & (F.col("since_ms") <= start_ms)
    return timed.where(~F.coalesce(is_start, F.lit(False))).drop("is_first", "since_ms", "from_state")
