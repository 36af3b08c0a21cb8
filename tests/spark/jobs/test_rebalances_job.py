"""Rebalances, storms, flapping members and the advice, computed by hand; and a storm among many groups."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from muster.actors.tables.parquet import write_whole
from muster.actors.tables.rollup import hour_folder
from muster.actors.tables.schemas.rebalances import REBALANCES_SCHEMA
from muster.spark.jobs.job import Options
from muster.spark.jobs.rebalances import (
    JOB,
    longest,
    lost_by_partition,
    over_time,
    per_cause,
    per_group,
    triggering_members,
)
from muster.spark.jobs.shared.membership import FlapRules, comings_and_goings, flapping, returns
from muster.spark.jobs.storms import StormRules, storms
from muster.spark.tables import read_table
from tests.spark.rows import NOON, at, collected, nothing, picked, result, table

JOINED, LEFT, EXPIRED = "member joined", "member left", "session expired"


def who(member_id: str, client_id: str | None = "rdkafka", host: str = "10.0.0.1", instance: str | None = None) -> Any:
    return member_id, client_id, host, instance


def rebalance(
    at_s: float, took_s: float = 3, lost_s: float | None = 0, *, triggered_by: Any = None, **changes: Any
) -> dict[str, Any]:
    """``triggered_by`` is the table's column ``culprit``."""
    return {
        "group": "billing",
        "offsets_partition": 7,
        "epoch": 1,
        "number": int(at_s),
        "from_state": "Stable",
        "previous_generation": 1,
        "generation": 2,
        "began": at(at_s),
        "ended": at(at_s + took_s),
        "ending": "stable",
        "cause": JOINED,
        **({"culprit": triggered_by} if triggered_by else {}),
        "rebalance_protocol": "eager",
        "protocol": "range",
        "members_before": 2,
        "members_after": 3,
        "added": [],
        "gone": [],
        "partitions": [],
        "partitions_still": 4,
        "lost_partition_ms": None if lost_s is None else round(1000 * lost_s),
    } | changes


def member_event(at_s: float, event: str, member: Any, **changes: Any) -> dict[str, Any]:
    names = ("member_id", "client_id", "host", "group_instance_id")
    return {
        "ts": at(at_s),
        "offsets_partition": 7,
        "epoch": 1,
        "number": int(at_s * 1000),
        "group": "billing",
        "event": event,
        **dict(zip(names, member, strict=True)),
    } | changes


def absent(column: pa.Field) -> Any:
    """Return a value for a column that a row omits."""
    return [] if pa.types.is_list(column.type) else None if column.nullable else 0


def came_and_went(at_s: float, away_s: float, old: Any, new: Any, why: str | None = None) -> list[dict[str, Any]]:
    """Return events of a member that left, or was removed for that reason, and rejoined after that time."""
    going = "member_removed" if why else "member_left"
    return [member_event(at_s, going, old, reason=why), member_event(at_s + away_s, "member_added", new)]


@pytest.fixture(scope="module")
def by_hand(spark: SparkSession) -> DataFrame:
    slow = who("m-9", "slow", "10.0.0.9")
    return table(
        spark,
        "rebalances",
        [
            rebalance(0, 3, 12),
            rebalance(60, 3, 12, cause=LEFT, triggered_by=slow, reason="poll timeout"),
            rebalance(120, 4, 16, cause=LEFT, triggered_by=who("m-8", "slow", "10.0.0.9")),
            rebalance(
                180, 5, 20, cause=LEFT, triggered_by=slow, partitions=[("flights", 0, 5_000), ("flights", 1, 2_000)]
            ),
            rebalance(240, 9, 36, ending="restarted", partitions=[("flights", 0, 9_000)]),
            rebalance(7_200, 6, 4, cause=EXPIRED, triggered_by=who("m-1"), rebalance_protocol="cooperative"),
            rebalance(3_599.5, 1, None, group="archive", ending="empty", members_after=None),
        ],
    ).cache()


def test_per_group(by_hand: DataFrame) -> None:
    """From noon to 7,206 s, six and one; sorted 3, 3, 4, 5, 6, 9 s, of which the third is the median."""
    figures = ("rebalances", "stable", "restarted", "empty", "median_seconds", "p99_seconds", "max_seconds")
    groups = per_group(by_hand).collect()
    assert picked(groups, "group", *figures) == [
        ("billing", 6, 5, 1, 0, 4.0, 9.0, 9.0),
        ("archive", 1, 0, 0, 1, 1.0, 1.0, 1.0),
    ]
    assert picked(groups, "lost_partition_seconds", "most_members", "cause", "cause_rebalances") == [
        (100.0, 3, LEFT, 3),
        (None, 2, JOINED, 1),
    ]
    assert picked(groups, "per_hour") == [(pytest.approx(6 * 3_600 / 7_206),), (pytest.approx(3_600 / 7_206),)]
    in_range = per_group(by_hand, start=NOON, end=at(4 * 3_600))
    assert result(in_range, "per_hour") == [(1.5,), (0.25,)]


def test_sums_count_the_groups_that_a_ranking_leaves_out(by_hand: DataFrame, spark: SparkSession) -> None:
    tables = {"rebalances": by_hand, "group_events": nothing(spark, "group_events")}
    [groups] = [of for of in JOB.sections(tables, Options(now=NOON, top=1)) if of.name == "groups"]
    assert len(groups.frame.collect()) == 1
    columns = ("groups", "rebalances", "troubled_groups", "lost_partition_seconds")
    assert groups.total is not None
    assert result(groups.total, *columns) == [(2, 7, 1, 100.0)]


def test_causes_and_triggering_members(by_hand: DataFrame) -> None:
    assert result(per_cause(by_hand), "group", "cause", "rebalances", "share", "lost_partition_seconds") == [
        ("billing", LEFT, 3, 0.5, 48.0),
        ("billing", JOINED, 2, pytest.approx(1 / 3), 48.0),
        ("archive", JOINED, 1, 1.0, None),
        ("billing", EXPIRED, 1, pytest.approx(1 / 6), 4.0),
    ]
    columns = ("client_id", "host", "rebalances", "share", "member_ids", "reason", "lost_partition_seconds")
    assert result(triggering_members(by_hand), *columns) == [
        ("slow", "10.0.0.9", 3, 0.5, 2, "poll timeout", 48.0),
        ("rdkafka", "10.0.0.1", 1, pytest.approx(1 / 6), 1, None, 4.0),
    ]


def test_who_was_waited_for_pays(spark: SparkSession) -> None:
    """``d`` joined twice; once the group waited 11.6 s for ``b``, which was removed. 3 s are a heartbeat's interval."""
    names = ("member_id", "client_id", "host", "group_instance_id")
    waits = {name: (*who(f"m-{name}", name), None, held) for name, held in (("b", 11_600), ("c", 3_000), ("d", 5_000))}
    assert len(waits["b"]) == len(names) + 2
    rows = [
        rebalance(0, 12, 35, triggered_by=who("m-d", "d"), join_waits=[waits["b"], waits["c"]]),
        rebalance(60, 3, 9, triggered_by=who("m-d", "d"), join_waits=[waits["c"]]),
        rebalance(120, 5, 4, triggered_by=who("m-d", "d"), join_waits=[waits["d"]]),
        rebalance(180, 12, 2, cause="group above group.max.size", join_waits=[waits["b"]]),
    ]
    columns = ("client_id", "rebalances", "share", "waited_rebalances", "waited_seconds", "lost_partition_seconds")
    assert result(triggering_members(table(spark, "rebalances", rows)), *columns) == [
        ("b", 0, 0.0, 2, 11.6, 37.0),
        ("d", 3, 0.75, 1, 5.0, 13.0),
    ]


def test_the_start_of_a_group_is_no_storm(spark: SparkSession) -> None:
    """Five members join within a minute, and another leaves. Where each finds the group empty, it is a storm."""
    start = [rebalance(0, from_state="Empty"), *(rebalance(5 * n) for n in range(1, 5)), rebalance(50, cause=LEFT)]
    loop = [rebalance(20 * n, from_state="Empty", cause=JOINED if n % 2 else LEFT, group="loop") for n in range(12)]
    rows = [*start, *loop]
    assert result(storms(table(spark, "rebalances", rows)), "group", "rebalances") == [("loop", 10)]


def test_longest_and_partitions_and_over_time(by_hand: DataFrame) -> None:
    assert result(longest(by_hand).limit(2), "seconds", "cause", "ending", "members") == [
        (9.0, JOINED, "restarted", 3),
        (6.0, EXPIRED, "stable", 3),
    ]
    assert result(lost_by_partition(by_hand), "group", "topic", "partition", "rebalances", "lost_seconds") == [
        ("billing", "flights", 0, 2, 14.0),
        ("billing", "flights", 1, 1, 2.0),
    ]
    steps = over_time(by_hand, seconds=3_600).collect()
    assert steps[0]["bucket"].timestamp() == NOON.timestamp()  # when it began; it ended in the next hour
    assert picked(steps, "group", "rebalances", "lost_partition_seconds") == [
        ("archive", 1, None),
        ("billing", 5, 96.0),
        ("billing", 1, 4.0),
    ]


def test_storms(by_hand: DataFrame) -> None:
    """Five within 240 s are a storm of five, not one of six; of three within 2 minutes there is one of five, too."""
    columns = ("group", "rebalances", "per_minute", "lost_partition_seconds", "cause", "cause_rebalances")
    found = storms(by_hand).collect()
    assert picked(found, *columns, "client_id", "host", "culprit_rebalances") == [
        ("billing", 5, 1.25, 96.0, LEFT, 3, "slow", "10.0.0.9", 3)
    ]
    assert [moment.timestamp() - NOON.timestamp() for moment in picked(found, "began", "ended")[0]] == [0.0, 249.0]
    assert result(storms(by_hand, rules=StormRules(rebalances=3, within_minutes=2)), "rebalances") == [(5,)]
    assert result(storms(by_hand, rules=StormRules(rebalances=6, within_minutes=10)), "rebalances") == []
    assert result(storms(by_hand, rules=StormRules(rebalances=2, within_minutes=0.9)), "rebalances") == []


def test_members_that_flap(spark: SparkSession) -> None:
    """``a`` rejoins 3 times; ``b`` twice; two instances of ``c``, which would need 6; ``d`` rejoins too late.

    ``f`` rejoins, together with two more instances.
    """
    events = [
        *(row for n in range(3) for row in came_and_went(600 * n, 10 + n, who(f"a{n}", "a"), who(f"a{n + 1}", "a"))),
        *(row for n in range(2) for row in came_and_went(600 * n, 10, who(f"b{n}", "b"), who(f"b{n + 1}", "b"))),
        member_event(1, "member_added", who("c0", "c")),
        member_event(2, "member_added", who("c1", "c")),
        *(row for n in range(5) for row in came_and_went(60 + 60 * n, 10, who(f"c{n}", "c"), who(f"c{n + 2}", "c"))),
        *(row for n in range(4) for row in came_and_went(800 * n, 400, who(f"d{n}", "d"), who(f"d{n + 1}", "d"))),
        *(
            member_event(100 * n, "static_member_replaced", who(f"e{n}", "e", "10.0.0.5", "instance-e"))
            for n in range(4)
        ),
        *came_and_went(10, 5, who("f0", "f"), who("f1", "f")),
        *(member_event(20, "member_added", who(f"f{n}", "f")) for n in (2, 3)),
    ]
    changes = comings_and_goings(table(spark, "rebalances", []), table(spark, "group_events", events))
    returned = returns(changes, rejoin_seconds=300).persist()
    flaps = flapping(returned)
    columns = ("client_id", "group_instance_id", "instances", "returns", "left", "member_ids", "away_median_seconds")
    assert result(flaps, *columns) == [
        ("e", "instance-e", 1, 4, 0, 4, 0.0),
        ("a", None, 1, 3, 3, 3, 11.0),
    ]
    slow = flapping(returned, rules=FlapRules(within_minutes=5))
    assert result(slow, "client_id", "most_returns") == [("e", 4)]
    assert result(returned.where("client_id = 'f'"), "member_id") == [("f1",)]


def test_groups_without_events(spark: SparkSession) -> None:
    """Then the rebalances show who joined and left; a group with events is not counted again."""
    rows = [
        rebalance(100 * n, gone=[(*who(f"m-{n}"), EXPIRED, None)], added=[who(f"m-{n + 1}")], group=group)
        for n in range(3)
        for group in ("billing", "archive")
    ]
    events = [member_event(0, "generation", (None, None, None, None))]
    changes = comings_and_goings(table(spark, "rebalances", rows), table(spark, "group_events", events))
    assert result(flapping(returns(changes, rejoin_seconds=300)), "group", "returns", "expired") == [("archive", 3, 3)]


Rows = list[dict[str, Any]]


def _for_advice() -> tuple[Rows, Rows]:
    """Rebalances and events of ``billing``."""
    pod = [who(f"pod-{n}", "pod", "10.0.0.4") for n in range(5)]
    late = [who(f"late-{n}", "late", "10.0.0.6") for n in range(5)]
    events = [
        *(row for n in range(4) for row in came_and_went(60 * n, 5, pod[n], pod[n + 1])),
        *(row for n in range(2) for row in came_and_went(20 + 60 * n, 8 + n, late[n], late[n + 1], EXPIRED)),
        member_event(900, "member_removed", late[2], reason=EXPIRED),
        member_event(901, "member_removed", who("busy", "busy"), reason="did not rejoin in time"),
        member_event(902, "member_left", who("busy-2", "busy"), reason="consumer poll timeout has expired."),
    ]
    rebalances = [
        *(rebalance(60 * n, 5, 40, cause=LEFT, triggered_by=pod[n]) for n in range(4)),
        rebalance(901, 5, 20, cause=JOINED, rebalance_protocol="cooperative"),
        rebalance(950, 5, 7, cause=LEFT, rebalance_protocol="cooperative", triggered_by=who("x", "pod", "10.0.0.5")),
    ]
    return rebalances, events


def _with_a_storm() -> tuple[Rows, Rows]:
    """100 groups over a day, each with a rebalance an hour; one has 40 within 20 minutes, because of one client.

    Another has a small storm, and an hour later another.
    """
    chance = random.Random(6)
    rebalances = [
        rebalance(
            3_600 * hour + chance.randrange(3_600), 2, 1, group=f"group-{n}", triggered_by=who(f"{n}-{hour}", f"c{n}")
        )
        for n in range(100)
        for hour in range(24)
    ]
    bad = [who(f"bad-{n}", "bad", "10.0.0.66") for n in range(41)]
    rebalances += [
        rebalance(40_000 + 30 * n, 4, 12, group="group-42", cause=LEFT, triggered_by=bad[n]) for n in range(40)
    ]
    rebalances += [
        rebalance(
            hour * 3_600 + 30 * n,
            1,
            None,
            group="group-7",
            number=100 + n,
            triggered_by=who("m-7", "c7") if n < 2 else None,
        )
        for hour in (30, 31)
        for n in range(5)
    ]
    events = [
        {**row, "group": "group-42"}
        for n in range(40)
        for row in came_and_went(40_000 + 30 * n, 12, bad[n], bad[n + 1])
    ]
    return rebalances, events


@pytest.fixture(scope="module")
def reported(spark: SparkSession) -> dict[str, list[Row]]:
    """Return the job's rows about both."""
    (rebalances, events), (stormy, flapping_events) = _for_advice(), _with_a_storm()
    tables = {
        "rebalances": table(spark, "rebalances", rebalances + stormy),
        "group_events": table(spark, "group_events", events + flapping_events),
    }
    return collected(JOB.sections(tables, Options(now=NOON, top=1_000)), "storms", "flapping", "advice")


def test_advice(reported: dict[str, list[Row]]) -> None:
    found = [row for row in reported["advice"] if row["group"] == "billing"]
    figures = ("setting", "client_id", "occurrences", "out_of", "median_seconds", "lost_partition_seconds")
    assert {row["advice"]: tuple(row[name] for name in figures) for row in found} == {
        "static membership": ("group.instance.id", "pod", 4, 4, 5.0, 160.0),
        "cooperative assignor": ("partition.assignment.strategy", None, 4, 6, None, 160.0),
        "longer session timeout": ("session.timeout.ms", None, 2, 3, 8.0, None),
        "longer poll interval": ("max.poll.interval.ms", None, 2, 9, None, None),
    }
    evidence = {row["advice"]: row["evidence"] for row in found}
    assert evidence["static membership"] == (
        "client pod at 10.0.0.4 came back 4 times under 4 member ids, away for 5.0 s in the median; it caused 4 "
        "rebalances that cost 160.0 partition-seconds"
    )
    assert evidence["longer session timeout"] == (
        "after 2 of 3 expired sessions the same client was back, in the median 8.0 s later, at the latest 9.0 s"
    )
    assert evidence["cooperative assignor"] == (
        "4 of 6 rebalances were eager (range): up to 4 partitions paused, 160.0 partition-seconds in all"
    )


def test_names_the_storm_and_who_flaps(reported: dict[str, list[Row]]) -> None:
    storm, *others = reported["storms"]
    seldom = ("group-7", 5, None, "c7", 2)  # the other three had no single trigger
    columns = ("group", "rebalances", "lost_partition_seconds", "client_id", "culprit_rebalances")
    assert picked(others, *columns) == [seldom, seldom]
    assert picked([storm], "group", "cause", "client_id", "host") == [("group-42", LEFT, "bad", "10.0.0.66")]
    assert storm["rebalances"] >= 40
    assert picked(reported["flapping"], "group", "client_id", "returns") == [
        ("group-42", "bad", 40),
        ("billing", "pod", 4),
    ]
    assert ("group-42", "static membership", "bad") in picked(reported["advice"], "group", "advice", "client_id")


def test_empty_tables(spark: SparkSession) -> None:
    tables = {name: nothing(spark, name) for name in JOB.tables}
    for section in JOB.sections(tables, Options(now=NOON, groups=frozenset({"billing"}))):
        assert section.frame.collect() == [], section.name


def test_reads_only_what_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    """The requested one of two hours is read, and of the triggering member what is shown."""
    for hour in (0, 1):
        row = {field.name: rebalance(3_600 * hour).get(field.name, absent(field)) for field in REBALANCES_SCHEMA.arrow}
        folder = tmp_path / "metrics" / "rebalances" / hour_folder(round(at(3_600 * hour).timestamp() * 1000))
        write_whole(pa.Table.from_pylist([row], schema=REBALANCES_SCHEMA.arrow), folder / "offsets-7-1.parquet")
    rows = read_table(spark, tmp_path, "rebalances", start=at(3_600), end=at(7_200))
    [file] = rows.inputFiles()
    assert "hour=13" in file
    found = storms(rows, rules=StormRules(rebalances=2, within_minutes=100))
    assert found.collect() == []
    read = found._jdf.queryExecution().executedPlan().toString().partition("ReadSchema")[2].splitlines()[0]
    assert "culprit:struct<cli" in read  # without the member id before it; Spark cuts the text there
    assert "offsets_partition" not in read
