"""Load, skew and what-if: small tables computed by hand, Kafka's hash compared with Muster's, a planted heavy group."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.schemas.groups import GROUP_EVENTS, REGISTRATIONS
from muster.actors.tables.schemas.offsets import COMMITS
from muster.actors.tables.schemas.samples import SAMPLES
from muster.placement import hashing
from muster.placement.rendezvous import choose
from muster.spark.jobs.job import Options
from muster.spark.jobs.placement import JOB
from muster.spark.jobs.placement_skew import long_loads, skew
from muster.spark.jobs.placement_what_if import scenarios
from muster.spark.jobs.shared import java_hash
from tests.spark.rows import at, collected, picked, result, table

Row = dict[str, Any]

ODD_GROUPS = [
    "",
    "a",
    "billing",
    "Grüße",
    "группа",
    "消費者",
    "💸-invoices",  # outside the basic multilingual plane: two code units
    "polygenelubricants",  # its hash is -2**31
    "with space\tand\nlines",
    "\U0010ffff\ue000",
    "x" * 300,
]


def test_the_hash_is_kafkas(spark: SparkSession) -> None:
    chance = random.Random(3)
    alphabet = "az09-_.\u00e9\u4e2d\u0430\U0001f4b8\U00010000"
    groups = ODD_GROUPS + ["".join(chance.choices(alphabet, k=chance.randrange(1, 30))) for _ in range(300)]
    frame = spark.createDataFrame([(group,) for group in groups], "group string")
    hashed = frame.select(
        "group",
        java_hash.java_string_hash(F.col("group")).alias("hash"),
        *(java_hash.partition_for(F.col("group"), count).alias(f"of_{count}") for count in (1, 7, 50)),
    )
    for group, value, *partitions in result(hashed, *hashed.columns):
        assert value == hashing.java_string_hash(group), group
        assert partitions == [hashing.partition_for(group, count) for count in (1, 7, 50)], group
    with pytest.raises(ValueError, match="partition"):
        java_hash.partition_for(F.col("group"), 0)


def commit(group: str, count: int, partition: int, at_s: float = 1) -> Row:
    return {"ts": at(at_s), "offsets_partition": partition, "group": group, "kind": "commit", "commits": count}


def event(group: str, partition: int, members: int | None) -> Row:
    return {"ts": at(2), "offsets_partition": partition, "group": group, "event": "generation", "members": members}


def sent(group: str | None, size: int) -> Row:
    return {"ts": at(3), "group": group, "bytes": size}


def life(actor: str, event: str, node: str | None, at_s: float = 0) -> Row:
    return {"ts": at(at_s), "actor": actor, "kind": actor.partition("-")[0], "event": event, "node_id": node}


def results(spark: SparkSession, options: Options, names: Sequence[str], **rows: list[Row]) -> dict[str, Any]:
    """Return the sections of these names, for tables with these rows."""
    tables = {name: table(spark, name, rows.get(name, [])) for name in JOB.tables}
    return collected(JOB.sections(tables, options), *names)


def member(group: str, name: str, at_s: float) -> Row:
    """Return a registration with partition 3."""
    said: Row = {"ts": at(at_s), "offsets_partition": 3, "epoch": 1, "event": "registered", "kind": "member"}
    return said | {"group": group, "member_id": name}


def test_loads_by_hand(spark: SparkSession) -> None:
    """For etl, idle except for one event, the last snapshot before noon counts; for gone, which left before, none."""
    found = results(
        spark,
        Options(top=1, start=at(0)),
        ["partitions", "nodes", "blame"],
        **{
            COMMITS: [
                commit("billing", 30, 1),
                commit("billing", 20, 1, 5),
                commit("audit", 10, 1),
                commit("etl", 20, 3),
                commit("etl", 0, 2, -300),  # its position before the topic had another number of partitions
            ],
            GROUP_EVENTS: [
                event("billing", 1, 2),
                event("billing", 1, 5),
                event("billing", 1, None),
                event("etl", 3, 1),
            ],
            REGISTRATIONS: [
                {"ts": at(1), "offsets_partition": 0, "group": "web", "event": "registered"},
                {"ts": at(1), "offsets_partition": 2, "group": "", "event": "snapshot"},
                member("gone", "m-1", -200),
                *(member("etl", name, -100) for name in ("m-2", "m-3")),
                {"ts": at(-100), "offsets_partition": 3, "epoch": 1, "group": "", "event": "snapshot"},
            ],
            SAMPLES: [
                sent("billing", 500),
                sent("audit", 600),
                sent("web", 100),
                sent("web", 100),
                sent(None, 9000),
                sent("unheard", 77),
            ],
            LIFECYCLE: [
                life("offsets-0", "serving", "east"),
                life("offsets-1", "serving", "west"),
                life("offsets-1", "lost", "west", 5),
                life("offsets-1", "serving", "east", 6),
                life("offsets-3", "serving", "west"),
                life("offsets-3", "starting", "north", 9),  # it does not serve there yet
                life("log-0", "serving", "north"),
            ],
        },
    )
    columns = ["actor", "node_id", "groups", "members", "commits", "events", "bytes", "heaviest_group"]
    assert picked(found["partitions"], *columns) == [
        ("offsets-0", "east", 1, 0, 0, 0, 200, "web"),
        ("offsets-1", "east", 2, 5, 60, 3, 1100, "billing"),
        ("offsets-2", None, 0, 0, 0, 0, 0, None),
        ("offsets-3", "west", 1, 2, 20, 1, 0, "etl"),
    ]
    assert picked(found["nodes"], "node_id", "partitions", "groups", "commits", "bytes") == [
        ("east", 2, 3, 60, 1300),
        ("north", 0, 0, 0, 0),
        ("west", 1, 1, 20, 0),
    ]
    blamed = picked(found["blame"], "load", "offsets_partition", "partition_over_mean", "group", "share_of_partition")
    assert blamed[1] == ("commits", 1, 3.0, "billing", pytest.approx(5 / 6))
    assert [row[:2] for row in blamed] == [("bytes", 1), ("commits", 1), ("events", 1), ("members", 1)]


def test_skew_by_hand(spark: SparkSession) -> None:
    loads = spark.createDataFrame(
        [(name, commits, 1, 0) for name, commits in (("p0", 0), ("p1", 0), ("p2", 10), ("p3", 30))],
        "name string, commits long, groups long, bytes long",
    )
    loads = loads.withColumns({"members": F.lit(4), "events": F.lit(0)})
    rows = result(
        skew(long_loads(loads, "partition", F.col("name"))),
        *("load", "places", "mean", "highest", "highest_name", "max_over_mean", "variation", "gini"),
    )
    assert [row for row in rows if row[0] == "commits"] == [
        ("commits", 4, 10.0, 30.0, "p3", 3.0, pytest.approx(150**0.5 / 10), 0.625)
    ]
    assert [row[5:] for row in rows if row[0] in ("bytes", "events")] == [(None, None, None)] * 2
    assert [row[5:] for row in rows if row[0] in ("groups", "members")] == [(1.0, 0.0, 0.0)] * 2


def test_a_skewed_hash_is_named_and_more_partitions_undo_it(spark: SparkSession) -> None:
    """64 groups whose names all hash to 3 of 8 partitions, one of them far heavier than the others."""
    names = [name for name in (f"team-{number}" for number in range(2000)) if hashing.partition_for(name, 8) == 3][:64]
    commits = [commit(name, 100, 3) for name in names[1:]] + [commit(names[0], 10_000, 3)]
    nodes = ["node-a", "node-b"]
    lives = [life(f"offsets-{number}", "serving", nodes[number % 2]) for number in range(8)]
    found = results(
        spark,
        Options(what_if_partitions=50, what_if_nodes=3),
        ["skew", "blame", "what_if"],
        **{COMMITS: commits, LIFECYCLE: lives},
    )
    skewed = picked(found["skew"], "level", "load", "highest_name", "max_over_mean", "gini")
    assert ("partition", "commits", "3", 8.0, 0.875) in skewed
    by_commits = [row for row in found["blame"] if row["load"] == "commits"]
    [first, second] = picked(by_commits, "group", "share_of_partition", "share_of_all")[:2]
    assert first == (names[0], pytest.approx(10_000 / 16_300), pytest.approx(10_000 / 16_300))
    assert second[1] == pytest.approx(100 / 16_300)

    columns = ["scenario", "level", "load", "places", "highest", "highest_name", "max_over_mean", "moved_groups"]
    rows = {row[:3]: row[3:] for row in picked(found["what_if"], *columns)}
    assert rows["now", "partition", "groups"] == (8, 64.0, "3", 8.0, 0)
    for scenario, count in (("50 partitions", 50), ("50 partitions, 3 nodes", 50), ("3 nodes", 8)):
        expected = [0] * count
        for name in names:
            expected[hashing.partition_for(name, count)] += 1
        moved = sum(hashing.partition_for(name, count) != 3 for name in names)
        places, highest, _, over_mean, is_moved = rows[scenario, "partition", "groups"]
        assert (places, highest, is_moved) == (count, max(expected), moved)
        assert over_mean == pytest.approx(max(expected) * count / 64)
    three = [*nodes, "new-1"]
    homes = [choose(f"offsets-{hashing.partition_for(name, 50)}", three) for name in names]
    on_node = {node: homes.count(node) for node in three}
    moved = sum(home != choose("offsets-3", nodes) for home in homes)
    places, highest, name, _, is_moved = rows["50 partitions, 3 nodes", "node", "groups"]
    assert (places, highest, is_moved) == (3, max(on_node.values()), moved)
    assert on_node[name] == highest
    [of_commits] = [
        row for row in found["what_if"] if picked([row], *columns[:3]) == [("50 partitions", "partition", "commits")]
    ]
    assert of_commits["largest_group_over_mean"] == pytest.approx(10_000 * 50 / 16_300)
    assert of_commits["max_over_mean"] >= of_commits["largest_group_over_mean"]


def test_partitions_that_nobody_names_count(spark: SparkSession) -> None:
    """Four groups on a cluster with 50 partitions, as the coordinators report: the other rows have four of them."""
    names = ["readers", "billing", "orders", "flights"]
    commits = [commit(name, 10, hashing.partition_for(name, 50)) for name in names]
    assert max(row["offsets_partition"] for row in commits) < 49
    said = {"ts": at(1), "offsets_partition": 28, "group": "", "event": "snapshot", "offsets_partitions": 50}
    tables = {COMMITS: commits, REGISTRATIONS: [said]}
    found = results(spark, Options(what_if_partitions=50), ["partitions", "what_if"], **tables)
    assert len(found["partitions"]) == 50
    rows = {row[:3]: row[3:] for row in picked(found["what_if"], "scenario", "level", "load", "places", "moved_groups")}
    assert rows["now", "partition", "commits"] == (50, 0)
    assert rows["50 partitions", "partition", "commits"] == (50, 0)


def test_scenarios() -> None:
    assert [scenario.name for scenario in scenarios(8, [], Options())] == ["now"]
    [_, fewer] = scenarios(8, ["b", "a", "c"], Options(what_if_nodes=2))
    assert fewer.nodes == ("a", "b")
    for options in (Options(what_if_nodes=0), Options(what_if_partitions=0)):
        with pytest.raises(ValueError, match="at least one"):
            scenarios(8, ["a"], options)


def test_empty_tables_and_plans_with_what_is_needed_only(spark: SparkSession, tmp_path: Path) -> None:
    tables = {}
    for name in JOB.tables:
        table(spark, name, []).write.parquet(str(tmp_path / name))
        tables[name] = spark.read.parquet(str(tmp_path / name))
    for section in JOB.sections(tables, Options(what_if_nodes=2, what_if_partitions=3)):
        plan = str(section.frame._jdf.queryExecution().executedPlan().toString())
        assert "ReadSchema" in plan, section.name
        for unwanted in ("first_offset", "reason:", "generation", "PythonUDF", "EvalPython", "Cartesian"):
            assert unwanted not in plan, (section.name, unwanted)
        rows = section.frame.collect()
        if section.name == "what_if":
            assert {row["max_over_mean"] for row in rows} == {None}
        else:
            assert rows == [], section.name
