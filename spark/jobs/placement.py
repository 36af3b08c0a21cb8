"""Placement: the load of each partition of ``__consumer_offsets``, its imbalance, the causes, and simulations.

The load of a partition is that of the groups that hash to it: commits, changes of the group (``group_events``), members
(their maximum), and bytes that gateways sent to them: the work that depends on the coordinator. The actor
``offsets-<p>`` owns the partition, and the node is the one where it serves according to ``lifecycle``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.schemas.groups import GROUP_EVENTS, REGISTRATIONS
from muster.actors.tables.schemas.offsets import COMMITS
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.job import Job, Options, Plot, Section
from muster.spark.jobs.placement_skew import LOADS, long_loads, skew
from muster.spark.jobs.placement_what_if import what_if
from muster.spark.jobs.shared.sent import Sent

_SUMS = ("commits", "events", "bytes")


def group_loads(
    sent: Sent,
    commits: DataFrame,
    group_events: DataFrame,
    registrations: DataFrame,
    *,
    start: datetime | None = None,
) -> DataFrame:
    """Return group, offsets_partition, groups (1), members (the most), commits, events, bytes; not ordered.

    offsets_partition is null for a group that occurs only in samples. ``registrations`` are from their first row on;
    those that ended before ``start`` do not count.
    """
    registered = _registered(registrations, start)
    attributed = sent.where(lambda rows: rows.where(F.col("group").isNotNull()))
    received = attributed.totals("group").groupBy("group").agg(F.sum("bytes").alias("bytes"))
    unknown = F.lit(None).cast("int").alias("offsets_partition"), F.lit(None).cast("timestamp").alias("ts")
    parts = [
        commits.select("group", "offsets_partition", "ts", *_loads(commits=F.col("commits"))),
        group_events.select("group", "offsets_partition", "ts", *_loads(events=F.lit(1), members=F.col("members"))),
        registered.select("group", "offsets_partition", "ts", *_loads(members=F.col("members"))),
        received.select("group", *unknown, *_loads(bytes=F.col("bytes"))),
    ]
    union = parts[0]
    for part in parts[1:]:
        union = union.unionByName(part)
    last_known = F.max_by("offsets_partition", F.when(F.col("offsets_partition").isNotNull(), F.col("ts")))
    return union.groupBy("group").agg(
        last_known.alias("offsets_partition"),
        F.lit(1).alias("groups"),
        F.max("members").alias("members"),
        *(F.sum(name).alias(name) for name in _SUMS),
    )


def _registered(registrations: DataFrame, start: datetime | None) -> DataFrame:
    """Return group, offsets_partition, ts, members (reported at that time: all of the group's in a snapshot), from the
    last snapshot before ``start`` on: an idle group reports nothing new."""
    is_snapshot = F.col("event") == "snapshot"
    if start is not None:
        earlier = registrations.where(is_snapshot & (F.col("ts") <= F.lit(start))).groupBy("offsets_partition")
        since = earlier.agg(F.max_by("ts", F.struct("epoch", "ts")).alias("since"))
        registrations = registrations.join(F.broadcast(since), "offsets_partition", "left")
        registrations = registrations.where(F.col("since").isNull() | (F.col("ts") >= F.col("since")))
    is_member = (F.col("event") == "registered") & (F.col("kind") == "member")
    members = F.count_distinct(F.when(is_member, F.col("member_id"))).alias("members")
    return registrations.where(~is_snapshot).groupBy("group", "offsets_partition", "ts").agg(members)


def partition_count(registrations: DataFrame, groups: DataFrame, homes: DataFrame) -> int:
    """Return the number of partitions of ``__consumer_offsets``, as the last snapshot of ``registrations`` says it.

    Without a snapshot, it is just enough for the partitions that the other rows name.
    """
    count = F.col("offsets_partitions")
    (said,) = registrations.agg(F.max_by(count, F.when(count.isNotNull(), F.col("ts"))).alias("count")).collect()
    if said["count"] is not None:
        return int(said["count"])
    named = groups.select("offsets_partition").unionByName(_served(homes).select("offsets_partition"))
    (row,) = named.agg(F.max("offsets_partition").alias("last")).collect()
    return 0 if row["last"] is None else int(row["last"]) + 1


def partition_loads(groups: DataFrame, homes: DataFrame, count: int) -> DataFrame:
    """Return offsets_partition, actor, node_id (null: not known), :data:`LOADS`, heaviest_group (by commits); ordered.

    Each of the ``count`` partitions has a row.
    """
    sums = (
        groups.where(F.col("offsets_partition").isNotNull())
        .groupBy("offsets_partition")
        .agg(
            *(F.sum(name).alias(name) for name in LOADS),
            F.max_by("group", F.struct("commits", "events", "bytes", "group")).alias("heaviest_group"),
        )
    )
    every = groups.sparkSession.range(0, count, 1, 1).select(F.col("id").cast("int").alias("offsets_partition"))
    return (
        every.join(_served(homes), "offsets_partition", "left")
        .join(sums, "offsets_partition", "left")
        .fillna(0, list(LOADS))
        .select(
            "offsets_partition",
            F.concat(F.lit("offsets-"), F.col("offsets_partition")).alias("actor"),
            "node_id",
            *LOADS,
            "heaviest_group",
        )
        .orderBy("offsets_partition")
    )


def _served(homes: DataFrame) -> DataFrame:
    """Return offsets_partition, node_id."""
    number = F.regexp_extract("actor", "^offsets-([0-9]+)$", 1).cast("int").alias("offsets_partition")
    return homes.select(number, "node_id").where(F.col("offsets_partition").isNotNull())


def homes(lifecycle: DataFrame) -> DataFrame:
    """Return actor, node_id where it last served."""
    served = lifecycle.where((F.col("event") == "serving") & F.col("node_id").isNotNull())
    return served.groupBy("actor").agg(F.max_by("node_id", "ts").alias("node_id"))


def node_loads(partitions: DataFrame, homes: DataFrame) -> DataFrame:
    """Return node_id, partitions (their number), :data:`LOADS`, of every node with an actor; ordered."""
    summed = partitions.groupBy("node_id").agg(
        F.count(F.lit(1)).alias("partitions"), *(F.sum(name).alias(name) for name in LOADS)
    )
    every = homes.select("node_id").distinct()
    return every.join(summed, "node_id", "left").fillna(0).orderBy("node_id")


def blame(groups: DataFrame, partitions: DataFrame, *, top: int) -> DataFrame:
    """Return the ``top`` heaviest groups in the heaviest partition of each load; by load and rank.

    load, offsets_partition, partition_over_mean, rank, group, value, share_of_partition, share_of_all. A group whose
    share of all is above 1/partitions is too heavy for any partition: more partitions do not help, splitting it does.
    """
    by_place = long_loads(partitions, "partition", F.col("offsets_partition"))
    worst = (
        by_place.groupBy("load")
        .agg(
            F.max_by("name", F.struct("value", "name")).cast("int").alias("offsets_partition"),
            F.max("value").alias("partition_value"),
            F.sum("value").alias("all_value"),
            F.avg("value").alias("mean"),
        )
        .where(F.col("all_value") > 0)
    )
    of_groups = long_loads(groups, "group", F.col("group"), "offsets_partition").withColumnRenamed("name", "group")
    rank = F.row_number().over(Window.partitionBy("load").orderBy(F.desc("value"), "group"))
    joined = of_groups.join(worst, ["load", "offsets_partition"])
    return (
        joined.where((F.col("value") > 0) & (F.col("load") != "groups"))
        .withColumn("rank", rank)
        .where(F.col("rank") <= top)
        .select(
            "load",
            "offsets_partition",
            (F.col("partition_value") / F.col("mean")).alias("partition_over_mean"),
            "rank",
            "group",
            "value",
            (F.col("value") / F.col("partition_value")).alias("share_of_partition"),
            (F.col("value") / F.col("all_value")).alias("share_of_all"),
        )
        .orderBy("load", "rank")
    )


def _loads(**given: Column) -> list[Column]:
    names = (*_SUMS, "members")
    return [given.get(name, F.lit(None)).cast("long").alias(name) for name in names]


def sections(tables: Mapping[str, DataFrame], options: Options) -> Sequence[Section]:
    groups = group_loads(
        Sent.of(tables), tables[COMMITS], tables[GROUP_EVENTS], tables[REGISTRATIONS], start=options.start
    )
    groups = groups.fillna(0, [*_SUMS, "members"]).persist()  # a row per group, used by every section
    at = homes(tables[LIFECYCLE]).persist()
    count = partition_count(tables[REGISTRATIONS], groups, at)
    partitions = partition_loads(groups, at, count).persist()
    by_node = node_loads(partitions, at)
    now = long_loads(partitions, "partition", F.col("offsets_partition")).unionByName(
        long_loads(by_node, "node", F.col("node_id"))
    )
    bars = Plot(kind="bars", x=("actor",), y="commits", y_label="commits")
    return [
        Section("partitions", "Load of each partition of __consumer_offsets", partitions, plot=bars),
        Section("nodes", "Load of each node, by the coordinators on it", by_node),
        Section("skew", "Imbalance of each load", skew(now), "max_over_mean: 1 is even. highest_name has the most."),
        Section(
            "blame",
            "The heaviest groups of the heaviest partitions",
            blame(groups, partitions, top=options.top),
            "A group that is heavier than the mean partition stays the heaviest with any number of partitions.",
        ),
        Section(
            "what_if",
            "With other numbers of partitions and nodes",
            what_if(groups, count, at, options),
            "The real groups by Kafka's hash, partitions by rendezvous hashing; names of nodes to come are made up.",
        ),
    ]


JOB = Job(
    name="placement",
    title="Load of each coordinator, its balance, and the effect of other numbers of partitions or nodes",
    tables=(SAMPLES, COMMITS, GROUP_EVENTS, REGISTRATIONS, LIFECYCLE),
    sections=sections,
    history=(REGISTRATIONS, LIFECYCLE),
    rollups=True,
)
