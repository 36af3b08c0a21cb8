"""Consumption: messages and bytes that gateways sent, per consumer and step of time, and their cost.

A message is *distinct* if a gateway sent its offset to the group (or the consumer) at least once, and *resent* for
every further time (a rebalance, a restart of the consumer, a fetch that began in the middle of a batch). Distinct is
the size of the union of the rows' offset intervals, so it counts offsets: on a compacted topic it is an upper bound,
and resent is then a lower bound.

A row of ``samples`` counts in the step in which it begins; it is at most one flush window long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.job import Job, Options, Plot, Section
from muster.spark.jobs.shared.buckets import Step, Unit, local_label, local_step_of, step_of, whole_step_s
from muster.spark.jobs.shared.runs import length, merged_runs
from muster.spark.jobs.shared.sent import Sent

CONSUMER = ("group", "member_id", "client_id", "host")
"""Columns that identify a consumer; without a member id (a consumer with manual assignment), the client id and host
do."""
_PARTITION = ("topic", "partition")
_GIB = 1 << 30
_MINUTE_S = 60


def sent_per_step(samples: DataFrame, *, seconds: int = _MINUTE_S) -> DataFrame:
    """Return bucket (its start, timestamp), gateway, consumer, topic, partition, messages, bytes.

    Unattributed bytes have no group.
    """
    keys = ["gateway", *CONSUMER, *_PARTITION]
    return Sent(samples).steps(*keys, seconds=seconds).groupBy("bucket", *keys).agg(*_sent())


def rates(sent: DataFrame, by: Sequence[str], *, seconds: int, options: Options) -> DataFrame:
    """Return bucket, ``by``, messages, bytes and both per second, in steps of ``seconds``, a multiple of those of
    ``sent``."""
    return _rates(sent, by, step_of(F.col("bucket"), seconds), options)


def local_rates(sent: DataFrame, by: Sequence[str], unit: Unit, options: Options) -> DataFrame:
    """Return bucket, local_time, ``by``, messages, bytes and both per second, by hours or days of ``options.timezone``.

    ``sent`` has steps of a minute or a part of one: all offsets of today's time zones are whole minutes.
    """
    rated = _rates(sent, by, local_step_of(F.col("bucket"), unit, options.timezone), options)
    label = local_label(F.col("bucket"), options.timezone).alias("local_time")
    return rated.select("bucket", label, *rated.columns[1:])


def per_consumer_and_partition(samples: DataFrame) -> DataFrame:
    """Return consumer, topic, partition and a run of sent offsets: messages, bytes. Attributed rows only."""
    return runs_per_consumer_and_partition(Sent(samples))


def runs_per_consumer_and_partition(sent: Sent) -> DataFrame:
    """Return :func:`per_consumer_and_partition` from ``sent``."""
    keys = [*CONSUMER, *_PARTITION]
    return merged_runs(sent.where(lambda rows: rows.where(F.col("group").isNotNull())).runs(*keys), keys, *_sent())


def per_partition(samples: DataFrame) -> DataFrame:
    """Return group, topic, partition, messages, bytes, distinct, resent; attributed rows only, ordered."""
    return partitions_of(per_consumer_and_partition(samples))


def partitions_of(runs: DataFrame) -> DataFrame:
    """Return :func:`per_partition` from :func:`per_consumer_and_partition`."""
    keys = ["group", *_PARTITION]
    return _repeated(merged_runs(runs, keys, *_sent()), keys).orderBy(*keys)


def per_group(by_partition: DataFrame) -> DataFrame:
    """Return group, messages, bytes, distinct, resent: the sums of :func:`per_partition`, ordered."""
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes", "distinct", "resent")]
    return by_partition.groupBy("group").agg(*sums).orderBy("group")


def per_consumer(runs: DataFrame) -> DataFrame:
    """Return consumer, partitions (their number), messages, bytes, distinct, resent, resent_percent (of distinct).

    From :func:`per_consumer_and_partition`. 100 % is a consumer that got everything twice.
    """
    each = _repeated(runs, [*CONSUMER, *_PARTITION])
    sums = [F.sum(name).alias(name) for name in ("messages", "bytes", "distinct", "resent")]
    total = each.groupBy(*CONSUMER).agg(F.count(F.lit(1)).alias("partitions"), *sums)
    return total.withColumn("resent_percent", F.col("resent") * 100 / F.col("distinct"))


def top_consumers(consumers: DataFrame, top: int) -> DataFrame:
    """Return the ``top`` rows of :func:`per_consumer` with the most bytes."""
    return consumers.orderBy(F.desc("bytes"), *CONSUMER).limit(top)


def most_resent(consumers: DataFrame, top: int) -> DataFrame:
    """Return the ``top`` rows of :func:`per_consumer` with the largest resent share."""
    return consumers.where("resent > 0").orderBy(F.desc("resent_percent"), F.desc("resent"), *CONSUMER).limit(top)


def chargeback(sent: DataFrame, price_per_gib: float | None) -> DataFrame:
    """Return group, messages, bytes, gib, share_percent (of all bytes), cost; the most bytes first.

    Unattributed bytes are a row of their own (group null), with their cost; they are not distributed over the groups.
    ``cost`` is null without a price.
    """
    total = F.sum("bytes").over(Window.partitionBy(F.lit(1)))
    gib = F.col("bytes") / _GIB
    price = F.lit(price_per_gib).cast("double")
    return (
        sent.groupBy("group")
        .agg(*_sent())
        .select(
            "*", gib.alias("gib"), (F.col("bytes") * 100 / total).alias("share_percent"), (gib * price).alias("cost")
        )
        .orderBy(F.desc("bytes"), "group")
    )


def total(charged: DataFrame) -> DataFrame:
    """Sum up in one row: groups, group_bytes (without the unattributed ones), and messages, bytes and cost of all rows
    of :func:`chargeback`."""
    of_groups = F.sum(F.when(F.col("group").isNotNull(), F.col("bytes")).otherwise(0)).alias("group_bytes")
    return charged.agg(F.count("group").alias("groups"), of_groups, *_sent(), F.sum("cost").alias("cost"))


def per_gateway(sent: DataFrame) -> DataFrame:
    """Return gateway, group (null: unattributed), messages, bytes; ordered. For comparison with the gateways'
    counters."""
    keys = ["gateway", "group"]
    return sent.groupBy(*keys).agg(*_sent()).orderBy(*keys)


def unattributed(samples: DataFrame) -> DataFrame:
    """Return reason, topic, client_id, host, messages, bytes without a group, ordered."""
    keys = ["reason", "topic", "client_id", "host"]
    return samples.where(F.col("group").isNull()).groupBy(*keys).agg(*_sent()).orderBy(*keys)


def sections(tables: Mapping[str, DataFrame], options: Options) -> list[Section]:
    """Return the job's answer. Samples are read three times, each time only the columns that are needed.

    Each scan adds up rows before it sends them anywhere, except for that of the runs.
    """
    everything = Sent.of(tables).where(options.of_groups)
    keys = ["gateway", *CONSUMER, *_PARTITION, "reason"]
    steps = everything.steps(*keys, seconds=whole_step_s(options.timezone))
    sent = steps.groupBy("bucket", *keys).agg(*_sent()).cache()
    runs = runs_per_consumer_and_partition(everything).cache()
    by_partition, consumers = partitions_of(runs).cache(), per_consumer(runs)
    of_group, charged = ("group",), chargeback(sent, options.price_per_gib)
    per_bucket = everything.steps(*of_group, seconds=options.bucket_seconds)
    return [
        Section("groups", "Messages and bytes per group", per_group(by_partition), _DISTINCT),
        Section("chargeback", "Bytes and cost per group", charged, _CHARGE, total=total(charged)),
        Section("top_consumers", "Consumers with the most bytes", top_consumers(consumers, options.top)),
        Section("resent", "Consumers with the largest resent share", most_resent(consumers, options.top), _RESENT),
        Section(
            "per_bucket",
            f"Rates per group, in steps of {options.bucket_seconds} s",
            rates(per_bucket, of_group, seconds=options.bucket_seconds, options=options),
            plot=Plot(
                kind="lines",
                x=("bucket",),
                y="rate_bytes_per_second",
                y_label="bytes per second",
                series=of_group,
                absent_is_zero=True,
            ),
        ),
        Section(
            "per_hour",
            f"Per hour, group and topic ({options.timezone})",
            local_rates(sent, ("group", "topic"), "hour", options),
        ),
        Section(
            "per_day",
            f"Per day, group, topic, partition and member ({options.timezone})",
            local_rates(sent, ("group", *_PARTITION, "member_id"), "day", options),
            "A day on which the clocks change has 23 or 25 hours; rates are per elapsed second.",
        ),
        Section(
            "partitions",
            "Per group, topic and partition",
            by_partition,
            plot=Plot(kind="bars", x=_PARTITION, y="bytes", y_label="bytes", series=of_group),
        ),
        Section("gateways", "Per gateway and group", per_gateway(sent), _COUNTERS),
        Section("unattributed", "Unattributed, and why", unattributed(sent)),
    ]


_DISTINCT = "Distinct: offsets that were sent to the group at least once; resent: messages beyond these."
_CHARGE = "The row without a group has the unattributed bytes; they are not spread over the others."
_COUNTERS = (
    "Sums of muster_group_fetch_messages_total and _bytes_total, and muster_unattributed_fetch_* where there is "
    "no group, over all restarts."
)
_RESENT = "100 %: the consumer got every message twice."


def _sent() -> tuple[Column, Column]:
    return F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")


def _repeated(runs: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return ``keys``, messages, bytes, distinct, resent from runs that do not touch."""
    totals = runs.groupBy(*keys).agg(*_sent(), F.sum(length()).alias("distinct"))
    return totals.withColumn("resent", F.greatest(F.col("messages") - F.col("distinct"), F.lit(0)))


def _rates(sent: DataFrame, by: Sequence[str], step: Step, options: Options) -> DataFrame:
    ends = {"bucket": step.start, "bucket_end": step.end}
    columns = [column.alias(name) for name, column in ends.items()]
    totals = sent.select(*columns, *by, "messages", "bytes").groupBy(*ends, *by).agg(*_sent())
    seconds = _elapsed_s(F.col("bucket"), F.col("bucket_end"), options)
    per_second = [(F.col(name) / seconds).alias(f"rate_{name}_per_second") for name in ("messages", "bytes")]
    return totals.select("bucket", *by, "messages", "bytes", *per_second).orderBy("bucket", *by)


def _elapsed_s(start: Column, end: Column, options: Options) -> Column:
    """Return elapsed seconds of the step within the requested time; of a step outside of it (a clock is wrong), all."""
    first, last = start, end
    if options.start is not None:
        first = F.greatest(first, _moment(options.start))
    last = F.least(last, _moment(min(options.end or options.now, options.now)))
    elapsed, whole = (F.unix_micros(b) - F.unix_micros(a) for a, b in ((first, last), (start, end)))
    return F.when(elapsed > 0, elapsed).otherwise(whole) / 1e6


def _moment(moment: datetime) -> Column:
    return F.timestamp_seconds(F.lit(moment.timestamp()))


JOB = Job(
    name="consumption",
    title="Messages and bytes per consumer, their rates and cost",
    tables=(SAMPLES,),
    sections=sections,
    rollups=True,
    streamed=(SAMPLES,),
)
