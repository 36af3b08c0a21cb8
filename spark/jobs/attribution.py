"""Attribution: bytes without a group, sudden rises and their causes, and the owners according to history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.schemas.groups import REGISTRATIONS
from muster.actors.tables.schemas.offsets import COMMITS
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.attribution_drift import drift_of
from muster.spark.jobs.attribution_holes import INTERNAL, clients_with_group, holes, volumes_of
from muster.spark.jobs.job import Job, Options, Plot, Section
from muster.spark.jobs.reattribution import per_group, per_reason_of, reattributed
from muster.spark.jobs.shared.sent import Sent

REASONS = ("no_group", "ambiguous", "unknown", "expired")
"""Reasons with a column of their own in :func:`shares`."""


def shares(volumes: DataFrame) -> DataFrame:
    """Return bucket, gateway, bytes, unattributed_bytes, unattributed_share (0 to 1) and the bytes of each reason;
    ordered.

    From :func:`muster.spark.jobs.attribution_holes.volumes`. One aggregation. Muster's own readers (internal_bytes)
    count in neither: they are no consumers. The share is null if nothing else was sent.
    """
    reason, sent = F.col("reason"), F.col("bytes")
    is_internal = F.coalesce(reason == INTERNAL, F.lit(False))

    def total(condition: Column) -> Column:
        return F.coalesce(F.sum(F.when(condition, sent)), F.lit(0))

    without = reason.isNotNull() & ~is_internal
    summed = volumes.groupBy("bucket", "gateway").agg(
        total(~is_internal).alias("bytes"),
        total(without).alias("unattributed_bytes"),
        *(total(reason == name).alias(f"{name}_bytes") for name in REASONS),
        total(without & ~reason.isin(*REASONS)).alias("other_reason_bytes"),
        total(is_internal).alias("internal_bytes"),
    )
    share = F.when(F.col("bytes") > 0, F.col("unattributed_bytes") / F.col("bytes"))
    keys, parts = summed.columns[:4], summed.columns[4:]
    return summed.select(*keys, share.alias("unattributed_share"), *parts).orderBy("bucket", "gateway")


def reasons(volumes: DataFrame) -> DataFrame:
    """Return reason (null: has a group), messages, bytes, share (of the bytes of consumers; null of Muster's own
    readers); the largest first."""
    sums = volumes.groupBy("reason").agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    of_consumers = F.when(F.coalesce("reason", F.lit("")) != INTERNAL, F.col("bytes"))
    whole = volumes.agg(F.sum(of_consumers).alias("all_bytes"))
    share = F.when(F.col("all_bytes") > 0, of_consumers / F.col("all_bytes")).alias("share")
    return sums.join(F.broadcast(whole)).select("reason", "messages", "bytes", share).orderBy(F.desc("bytes"), "reason")


def sections(tables: Mapping[str, DataFrame], options: Options) -> Sequence[Section]:
    samples, registrations = tables[SAMPLES], tables[REGISTRATIONS]
    everything = Sent.of(tables)
    sent = volumes_of(everything, seconds=options.bucket_seconds).persist()  # small, and used three times
    found = reattributed(samples, registrations).persist()
    lines = Plot(
        kind="lines",
        x=("bucket",),
        y="unattributed_share",
        y_label="share of the bytes without a group",
        series=("gateway",),
    )
    return [
        Section(
            "reasons",
            "Bytes by the reason why they have no group",
            reasons(sent),
            "Rows without a reason have a group. internal: Muster's own readers, which are in no share.",
        ),
        Section(
            "holes",
            "Gateways with a sudden, lasting rise of the share without a group",
            holes(
                sent,
                tables[LIFECYCLE],
                seconds=options.bucket_seconds,
                with_group=clients_with_group(everything),
            ),
            "lost_bytes: beyond the usual share there. The cause is the likely one, by restarts shortly before.",
        ),
        Section(
            "reattribution",
            "Bytes with a likely group by history, by reason",
            per_reason_of(everything, found),
            "Only where one group had such a client and the partition at that time; the samples stay as they are.",
        ),
        Section("reattributed_groups", "Groups of these bytes", options.of_groups(per_group(found))),
        Section(
            "drift",
            "Bytes implied by commits, and bytes attributed",
            options.of_groups(drift_of(everything, tables[COMMITS])).limit(options.top),
            "missing: committed past, and not sent under the group's name. Bytes are estimated from mean record sizes.",
        ),
        Section("shares", "Share without a group per gateway and step of time", shares(sent), plot=lines),
        Section(
            "reattributed",
            "Samples without a group, with their likely group by history",
            options.of_groups(found).orderBy("ts", *(name for name in found.columns if name != "ts")),
            "A row per sample. For joins with the table samples; the columns up to reason are the key.",
            bulk=True,
        ),
    ]


JOB = Job(
    name="attribution",
    title="Bytes without a group: share, sudden rises, and likely groups by history",
    tables=(SAMPLES, REGISTRATIONS, COMMITS, LIFECYCLE),
    sections=sections,
    history=(REGISTRATIONS, LIFECYCLE),
    rollups=True,
    streamed=(SAMPLES, COMMITS),
)
