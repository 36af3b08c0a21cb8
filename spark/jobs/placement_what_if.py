"""The effect of another number of partitions or nodes: the real groups, placed by the real rules.

A group's partition is Kafka's hash of its name, computed in Spark. A partition's node is found by rendezvous hashing,
as the controller does for the actor ``offsets-<p>``: computed on the driver, since there is one row per partition and
no group in it. Nodes that do not exist yet have made-up names, so their result is one of many; the real one differs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.placement.rendezvous import choose
from muster.spark.jobs.job import Options
from muster.spark.jobs.placement_skew import LOADS, long_loads, skew
from muster.spark.jobs.shared.java_hash import partition_for

NOW = "now"
_KEYS = ("scenario", "level", "load")


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    partitions: int
    nodes: tuple[str, ...]


def scenarios(partitions: int, nodes: list[str], options: Options) -> list[Scenario]:
    """Return the current state, by the same rules, and the requested ones. Raises ValueError for no partition or no
    node."""
    real = tuple(sorted(nodes)) or ("node-1",)
    found = [Scenario(NOW, partitions, real)]
    more, count = options.what_if_partitions, options.what_if_nodes
    if count is not None:
        if count < 1:
            raise ValueError(f"there is at least one node, not {count}")
        imagined = (*real[:count], *(f"new-{number}" for number in range(1, count - len(real) + 1)))
        found.append(Scenario(f"{count} nodes", partitions, imagined))
    if more is not None:
        if more < 1:
            raise ValueError(f"a topic has at least one partition, not {more}")
        found.append(Scenario(f"{more} partitions", more, real))
        if count is not None:
            found.append(Scenario(f"{more} partitions, {count} nodes", more, imagined))
    return found


def what_if(groups: DataFrame, count: int, homes: DataFrame, options: Options) -> DataFrame:
    """Return scenario, level (partition, node), load, moved_groups, largest_group_over_mean, and :func:`skew`'s;
    ordered.

    ``count`` is the number of partitions.

    moved_groups: those whose partition, or node, differs from that in the scenario ``now``. No number of partitions
    makes max_over_mean smaller than largest_group_over_mean.
    """
    spark = groups.sparkSession
    node_ids = [row.node_id for row in homes.select("node_id").distinct().collect()]
    compared = scenarios(max(count, 1), node_ids, options)
    places = _rows(
        spark,
        "scenario string, partition int, node string",
        [
            {"scenario": of.name, "partition": partition, "node": choose(f"offsets-{partition}", of.nodes)}
            for of in compared
            for partition in range(of.partitions)
        ],
    )
    of_nodes = [{"scenario": of.name, "node": node} for of in compared for node in of.nodes]
    nodes = _rows(spark, "scenario string, node string", of_nodes)
    placed = _placed(groups, places, compared)
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in LOADS]
    by_partition = places.join(placed.drop("node"), ["scenario", "partition"], "left").groupBy("scenario", "partition")
    by_node = nodes.join(placed, ["scenario", "node"], "left").groupBy("scenario", "node")
    loads = long_loads(by_partition.agg(*sums), "partition", F.col("partition"), "scenario").unionByName(
        long_loads(by_node.agg(*sums), "node", F.col("node"), "scenario")
    )
    largest = long_loads(groups, "group", F.col("group")).groupBy("load").agg(F.max("value").alias("largest_group"))
    return (
        skew(loads, _KEYS)
        .join(_moved(placed), ["scenario", "level"], "left")
        .join(largest, "load", "left")
        .withColumn("largest_group_over_mean", F.when(F.col("mean") > 0, F.col("largest_group") / F.col("mean")))
        .select(
            *_KEYS,
            "places",
            F.coalesce("moved_groups", F.lit(0)).alias("moved_groups"),
            "mean",
            "highest",
            "highest_name",
            "max_over_mean",
            "largest_group_over_mean",
            "variation",
            "gini",
        )
        .orderBy(F.col("scenario") != NOW, *_KEYS)
    )


def _rows(spark: SparkSession, columns: str, rows: list[dict[str, Any]]) -> DataFrame:
    """Return a DataFrame of these rows. PySpark's own conversion of a list would need Python processes to be
    started."""
    parsed = F.from_json(F.lit(json.dumps(rows)), f"array<struct<{columns}>>")
    return spark.range(0, 1, 1, 1).select(F.inline(parsed))


def _placed(groups: DataFrame, places: DataFrame, compared: list[Scenario]) -> DataFrame:
    """Return scenario, group, loads, partition, node, for each group in each scenario."""
    hashed = [
        groups.select(
            F.lit(scenario.name).alias("scenario"),
            "group",
            *LOADS,
            partition_for(F.col("group"), scenario.partitions).alias("partition"),
        )
        for scenario in compared
    ]
    union = hashed[0]
    for part in hashed[1:]:
        union = union.unionByName(part)
    return union.join(places, ["scenario", "partition"])


def _moved(placed: DataFrame) -> DataFrame:
    """Return scenario, level, moved_groups."""
    now = placed.where(F.col("scenario") == NOW).select(
        "group", F.col("partition").alias("now_partition"), F.col("node").alias("now_node")
    )
    levels = F.explode(
        F.array(
            *(
                F.struct(
                    F.lit(level).alias("level"), (F.col(level) != F.col(f"now_{level}")).cast("int").alias("moved")
                )
                for level in ("partition", "node")
            )
        )
    )
    rows = placed.join(now, "group").select("scenario", levels.alias("of"))
    return rows.groupBy("scenario", "of.level").agg(F.sum("of.moved").alias("moved_groups"))
