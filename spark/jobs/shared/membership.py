"""Members that join and leave a group repeatedly: from ``group_events``, or ``rebalances`` if a group has no row there.

Member ids change whenever a dynamic member rejoins, so *clients* are compared: a client is its ``group.instance.id`` if
it has one, else client id and host. Several consumers of one host with one client id are one client with ``instances``;
thresholds then apply to each instance.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.actors.group.events import Removal

CLIENT = ["group", "group_instance_id", "client_id", "host"]
LEFT = "left"
"""Reason of a member that sent LeaveGroup; otherwise a value of :class:`muster.actors.group.events.Removal`."""
REPLACED = "replaced"
"""Reason of a static member that rejoined under a new member id: no member waited for it."""

_MS_PER_MINUTE = 60_000
_WHO = ["group", "member_id", "client_id", "host", "group_instance_id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapRules:
    """Rules for flapping clients: they return ``returns`` times, per instance, within ``within_minutes``."""

    returns: int = 3
    within_minutes: int = 60
    rejoin_seconds: int = 300
    """Longest time from the departure of a client to its return."""


FLAP_RULES = FlapRules()


def comings_and_goings(rebalances: DataFrame, group_events: DataFrame) -> DataFrame:
    """Return group, member_id, client_id, host, group_instance_id, at_ms, number (order within a ms), change, why,
    reason.

    ``change``: 1 joined, -1 left or removed, 0 a static member was replaced. ``why`` it left: :data:`LEFT`,
    :data:`REPLACED` or a Removal; ``reason``: the member's own (KIP-800). For groups without any row in
    ``group_events``, all this is from ``rebalances``: at most 50 members of each, at the time when it began.
    """
    event = F.col("event")
    change = (
        F.when(event == "member_added", 1)
        .when(event.isin("member_left", "member_removed"), -1)
        .when(event == "static_member_replaced", 0)
    )
    why = (
        F.when(event == "member_left", LEFT)
        .when(event == "member_removed", F.col("reason"))
        .when(event == "static_member_replaced", REPLACED)
    )
    changes = group_events.select(
        *_WHO,
        F.unix_millis("ts").alias("at_ms"),
        "number",
        change.alias("change"),
        why.alias("why"),
        F.when(event == "member_left", F.col("reason")).alias("reason"),
    )
    silent = rebalances.select("group", "began", "added", "gone").join(
        group_events.select("group").distinct(), "group", "left_anti"
    )
    return changes.where("change IS NOT NULL").unionByName(_of_rebalances(silent))


def returns(changes: DataFrame, *, rejoin_seconds: int) -> DataFrame:
    """Return each join (or replacement) of a client that had left: ``changes`` with ``away_ms``, and ``why`` and
    ``reason`` of the last departure before it, and ``instances``: the maximum number of members that it had at once.

    Without absences longer than ``rejoin_seconds``. One join returns one member, so for a client that starts more
    instances than have left, the others are no returns. The absence of a replaced static member is 0.
    """
    order = Window.partitionBy(*CLIENT).orderBy("at_ms", "number")
    so_far, before = (order.rowsBetween(Window.unboundedPreceding, to) for to in (0, -1))
    went = F.last(F.when(F.col("change") == -1, F.struct("at_ms", "why", "reason")), ignorenulls=True).over(before)
    counted = changes.select(
        "*",
        went.alias("went"),
        F.coalesce(F.sum("change").over(before), F.lit(0)).alias("sum_before"),
        F.sum("change").over(so_far).alias("sum"),
    )
    most_before = F.greatest(F.coalesce(F.max("sum_before").over(so_far), F.lit(0)), F.lit(0))
    whole = Window.partitionBy(*CLIENT)
    outstanding = counted.select(
        *counted.columns,
        (most_before - F.col("sum_before")).alias("away"),
        F.greatest(F.max("sum").over(whole) - F.least(F.min("sum").over(whole), F.lit(0)), F.lit(1)).alias("instances"),
    )
    away_ms = F.when(F.col("change") == 0, 0).otherwise(F.col("at_ms") - F.col("went.at_ms"))
    came_back = (F.col("change") == 0) | ((F.col("change") == 1) & (F.col("away") > 0))
    return (
        outstanding.where(came_back)
        .withColumns(
            {
                "away_ms": away_ms,
                "why": F.coalesce("why", "went.why"),
                "reason": F.col("went.reason"),
            }
        )
        .where(F.col("away_ms") <= rejoin_seconds * 1000)
        .drop("went", "sum_before", "sum", "away", "change")
    )


def flapping(returned: DataFrame, *, rules: FlapRules = FLAP_RULES) -> DataFrame:
    """Return clients that flap, from :func:`returns`: group, group_instance_id, client_id, host, instances, returns,
    most_returns (within ``within_minutes``), left, expired, member_ids, away_median_seconds, first, last; most
    first."""
    expired = F.col("why") == Removal.SESSION_EXPIRED.value
    return (
        _with_dense(returned, rules.within_minutes * _MS_PER_MINUTE)
        .groupBy(*CLIENT)
        .agg(
            F.max("instances").alias("instances"),
            F.count("*").alias("returns"),
            F.max("dense").alias("most_returns"),
            F.count_if(F.col("why") == LEFT).alias("left"),
            F.count_if(expired).alias("expired"),
            F.count_distinct("member_id").alias("member_ids"),
            (F.percentile_approx("away_ms", 0.5) / 1000).alias("away_median_seconds"),
            F.timestamp_millis(F.min("at_ms")).alias("first"),
            F.timestamp_millis(F.max("at_ms")).alias("last"),
        )
        .where(F.col("most_returns") >= F.col("instances") * rules.returns)
        .orderBy(F.col("returns").desc(), *CLIENT)
    )


def _with_dense(returned: DataFrame, within_ms: int) -> DataFrame:
    """Add ``dense``: how often the client returned within the time before, this one included.

    Counted up at each return and down when its time is over: a sliding frame would be evaluated again for each row.
    """
    over = returned.select(*CLIENT, (F.col("at_ms") + within_ms + 1).alias("at_ms"), F.lit(-1).alias("step"))
    both = returned.withColumn("step", F.lit(1)).unionByName(over, allowMissingColumns=True)
    so_far = Window.partitionBy(*CLIENT).orderBy("at_ms").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    return both.withColumn("dense", F.sum("step").over(so_far)).where(F.col("step") == 1).drop("step")


def _of_rebalances(rebalances: DataFrame) -> DataFrame:
    unknown = F.lit(None).cast("string")

    def came(who: Column) -> Column:
        return F.struct(*_who(who), F.lit(1).alias("change"), unknown.alias("why"), unknown.alias("reason"))

    def went(who: Column) -> Column:
        why = F.coalesce(who["cause"], F.lit(LEFT))
        return F.struct(*_who(who), F.lit(-1).alias("change"), why.alias("why"), who["reason"].alias("reason"))

    both = F.concat(F.transform("gone", went), F.transform("added", came))
    return rebalances.select(
        "group", F.unix_millis("began").alias("at_ms"), F.posexplode(both).alias("number", "who")
    ).select(
        "group",
        *(F.col(f"who.{name}").alias(name) for name in _WHO[1:]),
        "at_ms",
        F.col("number").cast("long").alias("number"),
        "who.change",
        "who.why",
        "who.reason",
    )


def _who(who: Column) -> tuple[Column, ...]:
    return tuple(who[name].alias(name) for name in _WHO[1:])
