"""Holes of attribution: times in which a gateway's share of bytes without a group jumped up and stayed up.

The rule, for each step of time (those in which the gateway sent nothing do not count):

* *expected* is the median share of the gateway's own 15 previous steps; if it has fewer than three of these yet, and
  started later than the others, the share of all other gateways in the same step;
* the *limit* is the expected share plus 0.1, or plus four standard deviations of the gateway's own steps (estimated
  by the median of their absolute deviations, which is robust to outliers) if that is more;
* a hole begins with a step at or above the limit if the median of it and the four following ones is, too (there must
  be two): a single bad step is no hole;
* it ends with the first of two successive steps below the limit.

The other gateways' share at that time is reported, too: if it rose by as much, it is not a single gateway's hole.
In the incident at vivo, the hole was not in the broker that restarted but in the one that took over its partitions, so
the restart of another gateway is a probable cause, too. If a gateway's clients never had a group anywhere, it is not a
hole but a reader without a group.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.spark.jobs.shared.sent import Sent

INTERNAL = "internal"
"""Reason of Muster's own readers, which are no consumers."""
_NOT_MEMBER = "not_member"
"""Reason of readers without a group whose client id and host are those of a group's member."""
_SIGMAS_OF_MAD = 1.4826
"""Standard deviations per median absolute deviation, of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Rule for holes in the share without a group; times are counted in steps with traffic."""

    least_rise: float = 0.1
    """Smallest rise of the share (0 to 1)."""
    deviations: float = 4.0
    """Smallest rise, in standard deviations of the previous steps."""
    steps_before: int = 15
    steps_after: int = 5
    """Steps of a hole, with the one in which it begins."""
    least_steps: int = 3
    """Minimum for a median of either."""
    restart_within_seconds: int = 600
    """Time between the end of a restart (its beginning, if it has none) and the hole that it may have caused; this
    compares the clocks of two nodes."""


RULE = Rule()
_CLIENT = ("host", "client_id", "topic")


def volumes(samples: DataFrame, *, seconds: int) -> DataFrame:
    """Return bucket (start of the step), gateway, reason (null: has a group), host, client_id, topic, messages, bytes.

    A row of ``samples`` counts in the step in which it begins. Raises ValueError for less than 1 s.
    """
    return _volumes(Sent(samples).steps("gateway", _reason(), *_CLIENT, seconds=seconds))


def volumes_of(sent: Sent, *, seconds: int) -> DataFrame:
    """Return :func:`volumes`, with one row for all clients that have a group, whose columns are null."""
    client = (F.when(F.col("group").isNull(), F.col(name)).alias(name) for name in _CLIENT)
    return _volumes(sent.steps("gateway", _reason(), *client, seconds=seconds))


def clients_with_group(sent: Sent) -> DataFrame:
    """Return host, client_id, topic of clients with a group."""
    attributed = sent.where(lambda rows: rows.where(F.col("group").isNotNull()))
    return attributed.totals(*_CLIENT).select(*_CLIENT).distinct()


def _reason() -> Column:
    return F.when(F.col("group").isNull(), F.coalesce("reason", F.lit("unknown"))).alias("reason")


def _volumes(steps: DataFrame) -> DataFrame:
    sums = F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    return steps.groupBy("bucket", "gateway", "reason", *_CLIENT).agg(*sums)


def holes(
    volumes: DataFrame,
    lifecycle: DataFrame,
    *,
    seconds: int,
    rule: Rule = RULE,
    with_group: DataFrame | None = None,
) -> DataFrame:
    """Return one row per hole, by gateway and time, from :func:`volumes` (in steps of ``seconds``) and ``lifecycle``.

    gateway; began and ended (of steps; null: still open); bytes and unattributed_bytes of that time; lost_bytes:
    unattributed beyond the expected share; expected_share, share, others_share; is_everywhere: the others' rose as
    well; had_group_bytes: of unattributed_bytes, those of clients that had a group on that topic elsewhere in the
    table; reason, client_id, host: of the largest part of it; cause; restarted (actor), restart_began,
    restart_ended. The causes: ``gateway_restarted``, ``other_gateway_restarted`` (its partitions came here),
    ``labels_lost`` (no restart is known), ``reader_without_group``. ``with_group``: the result of
    :func:`clients_with_group`, needed if ``volumes`` are those of :func:`volumes_of`.
    """
    consumers = volumes.where(F.coalesce("reason", F.lit("")) != INTERNAL)
    steps = _steps(consumers).persist()  # a row per gateway and step, used three times; released with the next answer
    found = _with_sums(_outermost(_with_end(_beginnings(steps, rule), steps)), steps, rule)
    known = consumers.where(F.col("reason").isNull()) if with_group is None else with_group
    parts = _with_clients(found, consumers, known.select(*_CLIENT).distinct())
    return _with_cause(_with_restart(parts, restarts(lifecycle), seconds, rule)).orderBy("gateway", "began")


def restarts(lifecycle: DataFrame) -> DataFrame:
    """Return actor, restart_began, restart_ended (null: it did not serve again) of gateways, from ``lifecycle``.

    An actor with only a ``serving`` event, and none before it, was found and did not restart.
    """
    events = lifecycle.where(F.col("kind") == "gateway").select("actor", "ts", "event")
    served = F.when(F.col("event") == "serving", 1).otherwise(0)
    before = Window.partitionBy("actor").orderBy("ts").rowsBetween(Window.unboundedPreceding, -1)
    numbered = events.withColumn("life", F.coalesce(F.sum(served).over(before), F.lit(0)))
    began = F.min(F.when(F.col("event") != "serving", F.col("ts"))).alias("restart_began")
    ended = F.max(F.when(F.col("event") == "serving", F.col("ts"))).alias("restart_ended")
    return numbered.groupBy("actor", "life").agg(began, ended).where(F.col("restart_began").isNotNull()).drop("life")


def _steps(consumers: DataFrame) -> DataFrame:
    """Return gateway, bucket, bytes, unattributed_bytes, share; the first two also for all other gateways together."""
    without = F.when(F.col("reason").isNotNull(), F.col("bytes")).otherwise(0)
    steps = consumers.groupBy("gateway", "bucket").agg(
        F.sum("bytes").alias("bytes"), F.sum(without).alias("unattributed_bytes")
    )
    all_gateways = Window.partitionBy("bucket")
    return (
        steps.where(F.col("bytes") > 0)
        .withColumn("share", _share("unattributed_bytes", "bytes"))
        .withColumn("others_bytes", F.sum("bytes").over(all_gateways) - F.col("bytes"))
        .withColumn(
            "others_unattributed_bytes",
            F.sum("unattributed_bytes").over(all_gateways) - F.col("unattributed_bytes"),
        )
    )


def _beginnings(steps: DataFrame, rule: Rule) -> DataFrame:
    """Return gateway, began, expected_share, limit, others_before of each step with which a hole may begin."""
    in_time = Window.partitionBy("gateway").orderBy("bucket")
    before = in_time.rowsBetween(-rule.steps_before, -1)
    after = in_time.rowsBetween(0, rule.steps_after - 1)
    first_of_all = F.min("bucket").over(Window.partitionBy(F.lit(0)))  # few rows: one per gateway and step
    is_new = F.min("bucket").over(Window.partitionBy("gateway")) > first_of_all
    own = F.when(F.size("before") >= rule.least_steps, _median(F.col("before")))
    spread = F.transform("before", lambda share: F.abs(share - F.col("expected_share")))
    noise = F.when(F.size("before") >= rule.least_steps, _median(spread) * _SIGMAS_OF_MAD * rule.deviations)
    judged = (
        steps.withColumn("before", F.collect_list("share").over(before))
        .withColumn("after", F.collect_list("share").over(after))
        .withColumn(
            "others_before", F.sum("others_unattributed_bytes").over(before) / F.sum("others_bytes").over(before)
        )
        .withColumn(
            "expected_share", F.coalesce(own, F.when(is_new, _share("others_unattributed_bytes", "others_bytes")))
        )
        .withColumn(
            "limit", F.col("expected_share") + F.greatest(F.lit(rule.least_rise), F.coalesce(noise, F.lit(0.0)))
        )
    )
    stays = (F.size("after") >= rule.least_steps) & (_median(F.col("after")) >= F.col("limit"))
    begins = judged.where((F.col("share") >= F.col("limit")) & stays)
    return begins.select("gateway", F.col("bucket").alias("began"), "expected_share", "limit", "others_before")


def _with_end(beginnings: DataFrame, steps: DataFrame) -> DataFrame:
    """Add ``ended``; null if it did not end. Equi-join by gateway, of aggregated steps."""
    in_time = Window.partitionBy("gateway").orderBy("bucket")
    following = F.lead("share").over(in_time)
    highest = F.when(following.isNotNull(), F.greatest("share", following))  # a single step is no end
    calm = steps.select("gateway", "bucket", highest.alias("highest"))
    is_end = (F.col("bucket") > F.col("began")) & (F.col("highest") < F.col("limit"))
    keys = beginnings.columns
    return beginnings.join(calm, "gateway").groupBy(*keys).agg(F.min(F.when(is_end, F.col("bucket"))).alias("ended"))


def _outermost(found: DataFrame) -> DataFrame:
    """Remove those that begin during an earlier one of the same gateway."""
    before = Window.partitionBy("gateway").orderBy("began").rowsBetween(Window.unboundedPreceding, -1)
    reached = F.max(_or_forever("ended")).over(before)
    return (
        found.withColumn("reached", reached)
        .where(F.col("reached").isNull() | (F.col("began") >= F.col("reached")))
        .drop("reached")
    )


def _with_sums(found: DataFrame, steps: DataFrame, rule: Rule) -> DataFrame:
    """Add what was sent during the hole."""
    sums = ["bytes", "unattributed_bytes", "others_bytes", "others_unattributed_bytes"]
    keys = found.columns
    joined = found.join(steps.select("gateway", "bucket", *sums), "gateway").where(_within("bucket"))
    summed = joined.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in sums))
    expected = F.round(F.col("expected_share") * F.col("bytes")).cast("long")
    rise = F.col("others_share") - F.coalesce("others_before", F.lit(0.0))
    return (
        summed.withColumn("lost_bytes", F.col("unattributed_bytes") - expected)
        .withColumn("share", _share("unattributed_bytes", "bytes"))
        .withColumn("others_share", _share("others_unattributed_bytes", "others_bytes"))
        .withColumn("is_everywhere", F.coalesce(rise >= rule.least_rise, F.lit(False)))
    )


def _with_clients(found: DataFrame, consumers: DataFrame, known: DataFrame) -> DataFrame:
    """Add whose bytes have no group: how many had one elsewhere, and the largest part."""
    known = known.withColumnsRenamed({name: f"known_{name}" for name in _CLIENT})
    same = [F.col(name).eqNullSafe(F.col(f"known_{name}")) for name in _CLIENT]
    unattributed = consumers.where(F.col("reason").isNotNull()).select(
        "gateway", "bucket", "reason", *_CLIENT, F.col("bytes").alias("part")
    )
    within = unattributed.join(F.broadcast(found), "gateway").where(_within("bucket"))  # a handful of holes
    had_group = F.col("known_topic").isNotNull() & (F.col("reason") != _NOT_MEMBER)
    within = within.join(known, same, "left").withColumn("had_group", had_group)
    parts = within.groupBy(*found.columns, "reason", "host", "client_id").agg(
        F.sum(F.when(F.col("had_group"), F.col("part")).otherwise(0)).alias("known"), F.sum("part").alias("part")
    )
    largest = F.max_by(F.struct("reason", "client_id", "host"), F.struct("part", "reason", "host", "client_id"))
    return parts.groupBy(*found.columns).agg(F.sum("known").alias("had_group_bytes"), largest.alias("largest"))


def _with_restart(found: DataFrame, restarts: DataFrame, seconds: int, rule: Rule) -> DataFrame:
    """Add the restart that fits best: the latest, and among those in one step of time the gateway's own.

    A gateway that did not serve again counts at the time of its loss. Both sides are a handful of rows, so an equi-join
    would gain nothing.
    """
    began_s, restarted_s = F.unix_timestamp("began"), F.unix_timestamp("restart_began")
    served_s = F.coalesce(F.unix_timestamp("restart_ended"), restarted_s)
    fits = (restarted_s <= began_s + seconds) & (served_s >= began_s - rule.restart_within_seconds)
    keys = found.columns
    is_own = F.col("actor") == F.concat(F.lit("gateway-"), F.col("gateway"))
    step = F.floor(restarted_s / seconds).alias("step")
    restart = F.struct(step, is_own.alias("own"), "restart_began", "actor", "restart_ended")
    return (
        found.join(F.broadcast(restarts), fits, "left")
        .groupBy(*keys)
        .agg(F.max(F.when(F.col("actor").isNotNull(), restart)).alias("restart"))
    )


def _with_cause(found: DataFrame) -> DataFrame:
    cause = (
        F.when(F.col("had_group_bytes") * 2 < F.col("unattributed_bytes"), "reader_without_group")
        .when(F.col("restart.own"), "gateway_restarted")
        .when(F.col("restart").isNotNull(), "other_gateway_restarted")
        .otherwise("labels_lost")
    )
    return found.select(
        "gateway",
        "began",
        "ended",
        "bytes",
        "unattributed_bytes",
        "lost_bytes",
        "had_group_bytes",
        "expected_share",
        "share",
        "others_share",
        "is_everywhere",
        cause.alias("cause"),
        F.col("restart.actor").alias("restarted"),
        F.col("restart.restart_began").alias("restart_began"),
        F.col("restart.restart_ended").alias("restart_ended"),
        F.col("largest.reason").alias("reason"),
        F.col("largest.client_id").alias("client_id"),
        F.col("largest.host").alias("host"),
    )


def _within(moment: str) -> Column:
    return (F.col(moment) >= F.col("began")) & (F.col(moment) < _or_forever("ended"))


def _or_forever(moment: str) -> Column:
    return F.coalesce(moment, F.lit("9999-12-31 00:00:00").cast("timestamp"))


def _share(part: str, whole: str) -> Column:
    return F.when(F.col(whole) > 0, F.col(part) / F.col(whole))


def _median(values: Column) -> Column:
    """Return the median of an array of numbers, the lower one of the middle two; null if it is empty."""
    middle = F.ceil(F.size(values) / 2).cast("int")
    return F.when(F.size(values) > 0, F.element_at(F.array_sort(values), F.greatest(middle, F.lit(1))))
