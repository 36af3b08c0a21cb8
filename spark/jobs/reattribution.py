"""Re-attribution: samples without a group, judged again with the whole history of the registrations.

A gateway decides within a minute, by the registrations received so far; the coordinators' table ``registrations`` is
more complete later. A sample gets a group only if, over its whole time (``ts`` to ``last_ts``),

* a member with its host and client id was registered for that group, with the partition in its assignment, or with an
  unknown assignment while no other group had such a client; and
* no other group *may* have had one: registered with the partition or with an unknown assignment within a grace time
  around the sample, longer for a consumer that only commits: it may have read long before its coordinator knew of it.

A consumer that only commits is never the one: the gateway saw whether its commits matched the connection's records, and
the next program on that host has the same registration.

A wrong label is worse than none, so everything else keeps its reason. Principals are not compared: samples have none,
and an unknown one matches all. Samples themselves are never rewritten: the answer is a table of its own, with one row
per :data:`KEY`. The key has no file name, since compaction changes these; rows of samples with the same key are counted
(``rows``) and added up. So the same samples and registrations give the same answer, however often it is computed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.spark.jobs.shared.sent import Sent

REASONS = ("no_group", "unknown", "ambiguous", "expired", "pending")
"""Reasons that history may resolve. ``pending`` is undecided since its gateway was killed; ``internal`` is
permanent."""
KEY = (
    "gateway",
    "ts",
    "last_ts",
    "topic",
    "partition",
    "first_offset",
    "last_offset",
    "host",
    "client_id",
    "reason",
)
"""Columns that identify a row of ``samples`` without a group. ``client_id`` may be null."""
EVIDENCE = "history"
"""Evidence of a sample that got its group here."""

GRACE_MS = 30_000
"""Longest time for which a member may still fetch from a former assignment."""
SIMPLE_GRACE_MS = 3_600_000
"""Longest time for which a consumer that is no member may fetch before its first commit, or after it was forgotten."""

_CLIENT = ("host", "client_id")
_PLACE = ("topic", "partition")


def unlabelled(samples: DataFrame) -> DataFrame:
    """Return the :data:`KEY`, rows, messages, bytes without a group for one of :data:`REASONS`."""
    without = samples.where(F.col("group").isNull() & F.col("reason").isin(*REASONS))
    return without.groupBy(*KEY).agg(
        F.count(F.lit(1)).alias("rows"), F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    )


def tenures(registrations: DataFrame) -> DataFrame:
    """Return group, member_id, kind, host, client_id, partitions, since_ms, until_ms (null: still holds); ms since the
    epoch.

    A tenure ends with the next update about that member, or with a snapshot of its coordinator (after a failover, for
    example) that does not name it.
    """
    member = Window.partitionBy("offsets_partition", "group", "member_id").orderBy("epoch", "sequence", "ts_ms")
    # Backwards, since Spark iterates over a frame to the end of the partition again for each row.
    later = Window.partitionBy("offsets_partition").orderBy(F.desc("ts_ms")).rangeBetween(Window.unboundedPreceding, -1)
    is_snapshot = F.col("event") == "snapshot"
    rows = registrations.select(
        F.unix_millis("ts").alias("ts_ms"), *(name for name in registrations.columns if name != "ts")
    )
    stated = (
        rows.withColumn("snapshot_ms", F.min(F.when(is_snapshot, F.col("ts_ms"))).over(later))
        .where(~is_snapshot)
        .withColumn("next_ms", F.lead("ts_ms").over(member))
        .where(F.col("event") == "registered")
    )
    end = F.least("next_ms", "snapshot_ms")
    until = F.when(end.isNotNull(), F.greatest(end, "ts_ms"))  # two coordinators have two clocks
    return stated.select(
        "group", "member_id", "kind", *_CLIENT, "partitions", F.col("ts_ms").alias("since_ms"), until.alias("until_ms")
    )


def reattributed(samples: DataFrame, registrations: DataFrame) -> DataFrame:
    """Return :data:`KEY`, rows, messages, bytes, group, member_id (null: may be several), evidence of rows that got a
    group.

    Joined by host, client id, topic and partition, and by host and client id with one row per group and stretch of
    time; intervals are compared within these.
    """
    rows = unlabelled(samples)
    held = tenures(registrations)
    found = _owners(rows, held).unionByName(_clients(rows, held))
    judged = found.groupBy(*KEY, "rows", "messages", "bytes").agg(
        F.collect_set(F.when(F.col("is_possible"), F.col("candidate"))).alias("possible"),
        F.collect_set("candidate").alias("present"),
        F.collect_set(F.when(F.col("is_owner") & F.col("is_certain"), F.col("candidate"))).alias("owners"),
        F.collect_set(F.when(F.col("is_possible") & F.col("is_certain"), F.col("candidate"))).alias("certain"),
        F.collect_set(F.when(F.col("is_owner"), F.col("member"))).alias("members"),
    )
    group = F.element_at("possible", 1)
    is_alone = (F.size("present") == 1) & F.array_contains("certain", group)
    is_one = (F.size("possible") == 1) & (F.array_contains("owners", group) | is_alone)
    return judged.where(is_one).select(
        *KEY,
        "rows",
        "messages",
        "bytes",
        group.alias("group"),
        F.when(F.size("members") == 1, F.element_at("members", 1)).alias("member_id"),
        F.lit(EVIDENCE).alias("evidence"),
    )


def per_reason(samples: DataFrame, reattributed: DataFrame) -> DataFrame:
    """Return reason, bytes before, given to groups and after; likewise for messages. Ordered; before = given +
    after."""
    return per_reason_of(Sent(samples), reattributed)


def per_reason_of(sent: Sent, reattributed: DataFrame) -> DataFrame:
    """Return :func:`per_reason` from ``sent``."""
    before = (
        sent.where(lambda rows: rows.where(F.col("group").isNull()))
        .totals("reason")
        .groupBy("reason")
        .agg(F.sum("messages").alias("messages_before"), F.sum("bytes").alias("bytes_before"))
    )
    given = reattributed.groupBy(F.col("reason").alias("given_reason")).agg(
        F.sum("messages").alias("messages_given"), F.sum("bytes").alias("bytes_given")
    )
    joined = before.join(given, F.col("reason").eqNullSafe(F.col("given_reason")), "left").fillna(
        0, ["messages_given", "bytes_given"]
    )
    columns = [
        column
        for unit in ("messages", "bytes")
        for column in (
            F.col(f"{unit}_before"),
            F.col(f"{unit}_given"),
            (F.col(f"{unit}_before") - F.col(f"{unit}_given")).alias(f"{unit}_after"),
        )
    ]
    return joined.select("reason", *columns).orderBy("reason")


def per_group(reattributed: DataFrame) -> DataFrame:
    """Return group, reason (the previous one), messages, bytes; the largest first."""
    sums = F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    return reattributed.groupBy("group", "reason").agg(*sums).orderBy(F.desc("bytes"), "group", "reason")


def relabelled(samples: DataFrame, reattributed: DataFrame) -> DataFrame:
    """Return ``samples`` with the groups that were found; those have evidence ``history`` and no reason."""
    given = reattributed.select(
        *(F.col(name).alias(f"given_{name}") for name in (*KEY, "group", "member_id", "evidence"))
    )
    same = [F.col(name).eqNullSafe(F.col(f"given_{name}")) for name in KEY]
    is_given = F.col("group").isNull() & F.col("given_group").isNotNull()
    new = {name: F.col(f"given_{name}") for name in ("group", "member_id", "evidence")} | {"reason": F.lit(None)}
    joined = samples.join(given, same, "left")
    return joined.select(
        *(
            F.when(is_given, new[name]).otherwise(F.col(name)).alias(name) if name in new else name
            for name in samples.columns
        )
    )


def _owners(rows: DataFrame, held: DataFrame) -> DataFrame:
    """Return the candidates to which the partition was assigned."""
    owned = held.where(F.col("partitions").isNotNull()).select(
        F.col("group").alias("candidate"),
        F.col("member_id").alias("member"),
        (F.col("kind") == "member").alias("is_member"),
        *_bounds(),
        *(F.col(name).alias(f"their_{name}") for name in _CLIENT),
        F.explode("partitions").alias("owned"),
    )
    owned = owned.withColumns({f"their_{name}": F.col(f"owned.{name}") for name in _PLACE}).drop("owned")
    keys = (*_CLIENT, *_PLACE)
    merged = _stretches(owned, ["candidate", "member", "is_member", *(f"their_{name}" for name in keys)])
    is_member = F.col("is_member")
    return _candidates(rows, merged, keys, is_owner=is_member, is_possible=F.lit(True), is_evidence=is_member)


def _clients(rows: DataFrame, held: DataFrame) -> DataFrame:
    """Return the groups with such a client, and whether its assignment was unknown: one row per stretch of time.

    For clients with only known assignments, :func:`_owners` is sufficient. They are left out, since one address and
    default client id may belong to a thousand groups.
    """
    is_opaque = (F.col("partitions").isNull() & (F.col("kind") == "member")).alias("is_opaque")
    bounded = held.select(F.col("group").alias("candidate"), *_CLIENT, is_opaque, *_bounds())
    bounded = bounded.withColumn("in_doubt", F.max("is_opaque").over(Window.partitionBy(*_CLIENT))).where("in_doubt")
    merged = _stretches(bounded, ["candidate", *_CLIENT, "is_opaque"])
    renamed = merged.withColumnsRenamed({name: f"their_{name}" for name in _CLIENT}).withColumn(
        "member", F.lit(None).cast("string")
    )
    is_opaque = F.col("is_opaque")
    return _candidates(rows, renamed, _CLIENT, is_owner=F.lit(False), is_possible=is_opaque, is_evidence=is_opaque)


def _candidates(
    rows: DataFrame,
    held: DataFrame,
    keys: tuple[str, ...],
    *,
    is_owner: Column,
    is_possible: Column,
    is_evidence: Column,
) -> DataFrame:
    """Return the candidates. ``is_evidence``: else a candidate only leaves it open whether another one fetched that."""
    same = [F.col(name).eqNullSafe(F.col(f"their_{name}")) for name in keys]
    times = F.unix_millis("ts"), F.unix_millis("last_ts")
    first_ms, last_ms = F.least(*times), F.greatest(*times)  # the gateway's clock may have been set back meanwhile
    may_be = (first_ms <= F.col("to_ms")) & (last_ms >= F.col("from_ms"))
    is_certain = is_evidence & (first_ms >= F.col("certain_from_ms")) & (last_ms <= F.col("certain_to_ms"))
    return rows.join(held, [*same, may_be]).select(
        *rows.columns,
        "candidate",
        "member",
        is_owner.alias("is_owner"),
        is_possible.alias("is_possible"),
        is_certain.alias("is_certain"),
    )


def _bounds() -> tuple[Column, ...]:
    """Return when a tenure held, and when it may have held.

    The former has no grace: a program on that host with that client id, such as the default one, may have read just
    before the member joined or after it left.
    """
    grace = F.when(F.col("kind") == "simple", SIMPLE_GRACE_MS).otherwise(GRACE_MS)
    until = F.coalesce("until_ms", F.lit((1 << 62) - SIMPLE_GRACE_MS))
    return (
        F.col("since_ms").alias("certain_from_ms"),
        until.alias("certain_to_ms"),
        (F.col("since_ms") - grace).alias("from_ms"),
        (until + grace).alias("to_ms"),
    )


def _stretches(bounded: DataFrame, keys: list[str]) -> DataFrame:
    """Merge consecutive tenures, so that a group that rebalances often has few rows.

    Merged if the certain times touch; the longest uncertain ones remain around them.
    """
    ordered = Window.partitionBy(*keys).orderBy("certain_from_ms", "certain_to_ms")
    reached = F.max("certain_to_ms").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col("certain_from_ms") > reached, F.lit(True)).cast("int")
    numbered = bounded.withColumn("begins", begins).withColumn(
        "stretch", F.sum("begins").over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    return (
        numbered.groupBy(*keys, "stretch")
        .agg(
            F.min("certain_from_ms").alias("certain_from_ms"),
            F.max("certain_to_ms").alias("certain_to_ms"),
            F.min("from_ms").alias("from_ms"),
            F.max("to_ms").alias("to_ms"),
        )
        .drop("stretch")
    )
