"""Departures of all members of a group, from ``group_events``.

A group whose members have all left (LeaveGroup, which a consumer's ``close`` sends) was ended on purpose; one whose
sessions expired was not. Static members do not send LeaveGroup when they close, so theirs expire in either case.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_LEFT, _REMOVED = "member_left", "member_removed"
_WITH_MEMBERS = ("assignment", "restored")


def departures(group_events: DataFrame) -> DataFrame:
    """Return group, gone_ms (when its last member left or was removed), in_order (all members since its last assignment
    left), removal (why the last of those that did not leave was removed; null: all left); only groups without members.

    A member that was removed before the last assignment does not count: the others have had its partitions since.
    """
    event, moment = F.col("event"), F.struct("epoch", "number")
    went = event.isin(_LEFT, _REMOVED)
    last = group_events.groupBy("group").agg(
        F.max_by("members", moment).alias("members"),
        F.max_by(F.unix_millis("ts"), F.when(went, moment)).alias("gone_ms"),
        F.max(F.when(event == _REMOVED, moment)).alias("removed"),
        F.max_by("reason", F.when(event == _REMOVED, moment)).alias("removal"),
        F.max(F.when(event.isin(*_WITH_MEMBERS), moment)).alias("assigned"),
    )
    in_order = F.col("removed").isNull() | F.coalesce(F.col("removed") < F.col("assigned"), F.lit(False))
    return last.where((F.col("members") == 0) & F.col("gone_ms").isNotNull()).select(
        "group", "gone_ms", in_order.alias("in_order"), F.when(~in_order, F.col("removal")).alias("removal")
    )
