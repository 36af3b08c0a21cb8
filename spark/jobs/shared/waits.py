"""The members that rebalances waited for, from ``rebalances``: who pays for a rebalance that another one triggered."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

WAITED_MS = 3_000
"""Wait for one JoinGroup from which on the rebalance's cost is that member's: Kafka's ``heartbeat.interval.ms``, within
which members learn of a rebalance, and its ``group.initial.rebalance.delay.ms``; both are 3 s by default."""

_WHO = ("member_id", "client_id", "host", "group_instance_id")


def awaited() -> Column:
    """Return the earlier member whose JoinGroup was awaited longest: member_id, client_id, host, group_instance_id,
    held_ms; null if no wait was longer than :data:`WAITED_MS`."""
    slowest = F.get("join_waits", F.lit(0))  # the table has the longest first
    fields = (slowest[name].alias(name) for name in (*_WHO, "held_ms"))
    return F.when(slowest["held_ms"] > WAITED_MS, F.struct(*fields))


def lost_by_trigger() -> Column:
    """Return lost_partition_ms as far as the triggering member pays for it: 0 if another one was :func:`awaited`."""
    other = ~F.col("culprit.member_id").eqNullSafe(awaited()["member_id"]) & awaited().isNotNull()
    return F.when(other & F.col("lost_partition_ms").isNotNull(), 0).otherwise(F.col("lost_partition_ms"))
