"""Sums of lag: per group, per member, and over all groups."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muster.spark.jobs.lag_verdicts import (
    ENDED,
    OK,
    REWIND,
    RULES,
    STALLED,
    STOPPED,
    VERDICTS,
    WARNING,
    Rules,
    severity,
)

MEMBER = ["member_id", "client_id", "host"]


def per_group(partitions: DataFrame, rules: Rules = RULES) -> DataFrame:
    """Return one row per group of :func:`muster.spark.jobs.lag.per_partition`, the worst first.

    Its verdict is the worst of its partitions. ``status`` is Burrow's status of a group: OK (for ENDED as well), WARN,
    ERR. Times are the longest; a group has caught up when its last partition has, so catch_up_seconds is null if that
    of one partition is. ``falls_behind``: its verdict is WARNING, or OK though it is behind for ``rules.recent_ms`` and
    consumes less than is produced. ``left``: all its members left in order, and no consumer committed since.
    ``without_members``: they left or were removed.
    """
    status = F.when(F.col("verdict").isin(OK, ENDED), "OK").when(F.col("verdict") == WARNING, "WARN").otherwise("ERR")
    worst = partitions.groupBy("group").agg(
        *_sums(),
        *(F.count_if(F.col("verdict") == name).alias(f"{name.lower()}_partitions") for name in VERDICTS[1:]),
        F.count_if(F.col("log_end").isNull()).alias("unknown_partitions"),
        F.bool_and("left").alias("left"),
        F.bool_and("without_members").alias("without_members"),
    )
    return worst.withColumns({"status": status, "falls_behind": _falls_behind(rules)}).orderBy(
        severity().desc(), F.col("lag_messages").desc(), "group"
    )


def _falls_behind(rules: Rules) -> Column:
    slower = F.col("catch_up_seconds").isNull() & (F.col("consumed_per_second") < F.col("produced_per_second"))
    late = F.col("lag_seconds") * 1000 >= rules.recent_ms
    return (F.col("verdict") == WARNING) | ((F.col("verdict") == OK) & F.coalesce(late & slower, F.lit(False)))


def total(groups: DataFrame) -> DataFrame:
    """Sum up :func:`per_group` in one row: groups, stuck_groups (STOPPED, STALLED, REWIND; not ``left``), left_groups
    (the same, but ``left``), behind_groups (that fall behind), waiting_groups and waiting_lag_messages (of the others
    that are behind without members, but not ENDED), lag_messages, lost_messages, consumed_per_second and
    produced_per_second."""
    is_waiting = F.col("verdict").isin(OK, WARNING) & ~F.col("falls_behind") & F.col("without_members")
    is_waiting &= F.col("lag_messages") > 0
    is_stuck = F.col("verdict").isin(STALLED, STOPPED, REWIND)
    sums = ("lag_messages", "lost_messages", "consumed_per_second", "produced_per_second")
    return groups.agg(
        F.count("*").alias("groups"),
        F.count_if(is_stuck & ~F.col("left")).alias("stuck_groups"),
        F.count_if(is_stuck & F.col("left")).alias("left_groups"),
        F.count_if("falls_behind").alias("behind_groups"),
        F.count_if(is_waiting).alias("waiting_groups"),
        F.sum(F.when(is_waiting, F.col("lag_messages"))).alias("waiting_lag_messages"),
        *(F.sum(name).alias(name) for name in sums),
    )


def per_member(partitions: DataFrame) -> DataFrame:
    """Return :func:`per_group` for each member by its last commits; null member_id: outside a generation.

    A partition counts for the member that committed it last: until its new owner commits, for the previous one.
    """
    by = ["group", *MEMBER]
    return (
        partitions.groupBy(*by)
        .agg(*_sums())
        .orderBy(severity().desc(), F.col("lag_messages").desc(), *(F.col(name).asc_nulls_last() for name in by))
    )


def _sums() -> tuple[Column, ...]:
    worst = F.max_by(F.struct("verdict", "rule"), F.struct(severity(), "lag_messages"))
    return (
        F.count("*").alias("partitions"),
        F.sum("lag_messages").alias("lag_messages"),
        F.sum("lost_messages").alias("lost_messages"),
        F.max("lag_seconds").alias("lag_seconds"),
        F.sum("consumed_per_second").alias("consumed_per_second"),
        F.sum("produced_per_second").alias("produced_per_second"),
        F.when(F.count_if(F.col("catch_up_seconds").isNull()) == 0, F.max("catch_up_seconds")).alias(
            "catch_up_seconds"
        ),
        worst["verdict"].alias("verdict"),
        worst["rule"].alias("rule"),
    )
