"""A sample gets a group from history only if no other group is possible."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from muster.actors.tables.schemas.groups import REGISTRATIONS
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.reattribution import per_group, per_reason, reattributed, relabelled, tenures
from tests.spark.rows import NOON, at, picked, result, table

Row = dict[str, Any]
HOUR_S = 3600.0


def said(at_s: float, member: str, partitions: list[int] | None, *, event: str = "registered", **changes: Any) -> Row:
    """Return the registration of a member (named ``group/member``) with these partitions of ``flights``."""
    group, _, member_id = member.partition("/")
    is_registered = event == "registered"
    return {
        "ts": at(at_s),
        "offsets_partition": 7,
        "epoch": 1,
        "sequence": round(1000 * at_s) + 10_000_000,
        "event": event,
        "group": group,
        "member_id": member_id,
        "kind": "member" if is_registered else None,
        "client_id": "rdkafka" if is_registered else None,
        "host": "10.0.0.1" if is_registered else None,
        "partitions": None if partitions is None else [("flights", number) for number in partitions],
        **changes,
    }


def unattributed(
    at_s: float, partition: int = 0, *, lasts_s: float = 0, reason: str = "no_group", **changes: Any
) -> Row:
    return {
        "ts": at(at_s),
        "last_ts": at(at_s + lasts_s),
        "gateway": 1,
        "client_id": "rdkafka",
        "host": "10.0.0.1",
        "topic": "flights",
        "partition": partition,
        "evidence": "none",
        "reason": reason,
        "messages": 10,
        "bytes": 1000,
        "fetches": 1,
        "first_offset": 0,
        "last_offset": 9,
        **changes,
    }


SCENES: dict[str, tuple[Sequence[Row], Sequence[Row]]] = {}
"""Samples and registrations, by the name that a test uses for the result; all are processed together."""
Found = Callable[[str], dict[tuple[float, int], str]]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """For a scene: group/member by the seconds and partition of the samples that got one."""
    scenes = list(enumerate(SCENES.values()))
    samples = [_of_scene(row, number) for number, (sent, _) in scenes for row in sent]
    registrations = [_of_scene(row, number) for number, (_, registered) in scenes for row in registered]
    rows = reattributed(table(spark, SAMPLES, samples), table(spark, REGISTRATIONS, registrations)).collect()

    def of(name: str) -> dict[tuple[float, int], str]:
        place = f" of {list(SCENES).index(name)}"
        return {
            (_seconds(row["ts"]), row["partition"]): f"{row['group']}/{row['member_id'] or '?'}"
            for row in rows
            if row["host"].endswith(place)
        }

    return of


def _of_scene(row: Row, number: int) -> Row:
    """Each has its own hosts and coordinator."""
    moved = {} if row["host"] is None else {"host": f"{row['host']} of {number}"}
    return row | moved | ({"offsets_partition": 10 * number + row["offsets_partition"]} if "event" in row else {})


def _seconds(moment: datetime) -> float:
    return (moment.astimezone(UTC) - NOON).total_seconds()


def test_a_tenure_lasts_to_the_next_word_about_the_member(spark: SparkSession) -> None:
    rows = [
        said(0, "billing/a", None),
        said(10, "billing/a", [0]),
        said(30, "billing/a", None, event="withdrawn"),
        said(5, "billing/b", [1]),
        said(50, "/", None, event="snapshot", epoch=2, sequence=0),
        said(50, "billing/c", [2], epoch=2, sequence=1),
        said(60, "/", None, event="snapshot", offsets_partition=8),
        said(70, "billing/d", [3]),  # of epoch 1, whose clock was ahead
        said(65, "billing/d", None, event="withdrawn", epoch=2),
    ]
    held = result(tenures(table(spark, REGISTRATIONS, rows)).orderBy("since_ms"), "member_id", "since_ms", "until_ms")
    noon_ms = int(NOON.timestamp() * 1000)
    assert [(member, since - noon_ms, until and until - noon_ms) for member, since, until in held] == [
        ("a", 0, 10_000),
        ("b", 5000, 50_000),
        ("a", 10_000, 30_000),
        ("c", 50_000, None),
        ("d", 70_000, 70_000),
    ]


SCENES["one group only"] = (
    [
        unattributed(600, 0),
        unattributed(601, 1, reason="unknown"),
        unattributed(602, 2, reason="ambiguous"),  # two groups have it
        unattributed(603, 3, reason="expired"),  # two members of one group: the group, no member
        unattributed(604, 4),  # of no group
        unattributed(-1, 0),  # by another program with that client id, before the member joined
        unattributed(-1, 1, lasts_s=2),
        unattributed(HOUR_S - 1, 0),
        unattributed(HOUR_S + 1, 0),
        unattributed(HOUR_S - 2, 0, lasts_s=5),  # ends too late
        unattributed(605, 0, reason="internal"),
        unattributed(606, 0, host="10.0.0.2", client_id=None),
        unattributed(607, 0, host="10.0.0.2", client_id=""),
        unattributed(608, 0, host="10.0.0.3"),
        unattributed(609, 0) | {"group": "billing", "reason": None},
    ],
    [
        said(0, "billing/a", [0, 3]),
        said(0, "billing/b", [1, 3]),
        said(0, "archive/x", [2]),
        said(0, "audit/y", [2]),
        said(HOUR_S, "billing/a", None, event="withdrawn"),
        said(0, "etl/z", [0], host="10.0.0.2", client_id=None),
        said(0, "web/w", [0], host="10.0.0.2", client_id=""),
    ],
)


def test_only_what_one_group_may_have_fetched_gets_it(found: Found) -> None:
    assert found("one group only") == {
        (600, 0): "billing/a",
        (601, 1): "billing/b",
        (603, 3): "billing/?",
        (HOUR_S - 1, 0): "billing/a",
        (606, 0): "etl/z",
        (607, 0): "web/w",
    }


SCENES["grace time"] = (
    (
        [unattributed(second, 0) for second in (69, 71, 150, 229, 231)]
        + [unattributed(20_000 - HOUR_S - 1, 1), unattributed(20_000 - HOUR_S + 1, 1), unattributed(20_001, 1)]
    ),
    [
        said(0, "billing/a", [0, 1]),
        said(100, "archive/x", [0]),
        said(200, "archive/x", None, event="withdrawn"),
        said(20_000, "etl/simple", [1], kind="simple"),
    ],
)


def test_who_may_have_fetched_within_its_grace_time_stands_in_the_way(found: Found) -> None:
    assert found("grace time") == {
        (69, 0): "billing/a",
        (231, 0): "billing/a",
        (20_000 - HOUR_S - 1, 1): "billing/a",
    }


SCENES["a simple consumer"] = (
    [unattributed(5_000, 0), unattributed(5_100, 1), unattributed(9_000, 1)],
    [
        said(4_000, "etl/simple", [0], kind="simple"),
        said(8_000, "billing/b", [0, 1]),
        said(8_500, "etl/simple", [0, 1], kind="simple"),
    ],
)


def test_the_registration_of_a_simple_consumer_shows_nobody(found: Found) -> None:
    """The next program on its host has the same one; and it may be what another group's member did not fetch."""
    assert found("a simple consumer") == {}


SCENES["a clock set back"] = (
    [unattributed(700, 0, lasts_s=-140), unattributed(900, 0, lasts_s=-3)],  # archive owned it for a part of the former
    [
        said(0, "billing/a", [0]),
        said(620, "archive/x", [0]),
        said(640, "archive/x", None, event="withdrawn"),
    ],
)


def test_a_sample_that_ended_before_it_began_has_all_of_that_time(found: Found) -> None:
    assert found("a clock set back") == {(900, 0): "billing/a"}


SCENES["unknown assignment"] = (
    [unattributed(500, 0), unattributed(1050, 0), unattributed(1051, 1), unattributed(1120, 0), unattributed(1200, 1)],
    [
        said(0, "connect/a", None),
        said(1000, "billing/b", [1]),
        said(1100, "billing/b", None, event="withdrawn"),
    ],
)


def test_an_assignment_that_is_not_known_counts_only_alone(found: Found) -> None:
    assert found("unknown assignment") == {(500, 0): "connect/?", (1200, 1): "connect/?"}


SCENES["failover"] = (
    [
        unattributed(900, 0),
        unattributed(900, 1),
        unattributed(998, 0, lasts_s=4),
        unattributed(1100, 0),
        unattributed(1100, 1),
    ],
    [
        said(0, "billing/a", [0]),
        said(0, "billing/b", [1]),
        said(1000, "/", None, event="snapshot", epoch=2, sequence=0),
        said(1000, "billing/a", [0], epoch=2, sequence=1),
    ],
)


def test_after_a_failover_only_what_was_said_again_holds(found: Found) -> None:
    assert found("failover") == {
        (900, 0): "billing/a",
        (900, 1): "billing/b",
        (998, 0): "billing/a",
        (1100, 0): "billing/a",
    }


def test_before_and_after_by_reason_and_again(spark: SparkSession) -> None:
    samples = table(
        spark,
        SAMPLES,
        [
            unattributed(1, 0),
            unattributed(1, 0),  # the same in all columns that identify a row: counted together
            unattributed(2, 1),
            unattributed(3, 0, reason="ambiguous"),
            unattributed(4, 0, reason="internal", bytes=7),
            unattributed(5, 0) | {"group": "billing", "reason": None},
        ],
    )
    registrations = table(spark, REGISTRATIONS, [said(0, "billing/a", [0])])
    given = reattributed(samples, registrations).persist()  # as the job does
    columns = ["reason", "bytes_before", "bytes_given", "bytes_after", "messages_given"]
    assert result(per_reason(samples, given), *columns) == [
        ("ambiguous", 1000, 1000, 0, 10),
        ("internal", 7, 0, 7, 0),
        ("no_group", 3000, 2000, 1000, 20),
    ]
    assert result(per_group(given), "group", "reason", "bytes") == [
        ("billing", "no_group", 2000),
        ("billing", "ambiguous", 1000),
    ]
    rows = given.collect()
    assert sorted(picked(rows, "rows", "bytes")) == [(1, 1000), (2, 2000)]

    better = relabelled(samples, given).persist()
    assert better.columns == samples.columns
    assert sorted(result(better, "partition", "group", "evidence", "reason", "bytes"), key=str) == [
        (0, "billing", "history", None, 1000),
        (0, "billing", "history", None, 1000),
        (0, "billing", "history", None, 1000),
        (0, "billing", "none", None, 1000),
        (0, None, "none", "internal", 7),
        (1, None, "none", "no_group", 1000),
    ]
    assert result(reattributed(better, registrations), "group") == []


def _taking_over(seed: int) -> tuple[tuple[list[Row], list[Row]], dict[tuple[float, int], set[str]]]:
    """Clients that share address and client id take over partitions from each other. The real fetcher is known here."""
    chance = random.Random(seed)
    registrations: list[Row] = []
    holders: dict[int, list[tuple[float, float, str]]] = {partition: [] for partition in range(6)}
    for number in range(12):
        member, owned = f"g{number % 4}/m{number}", chance.sample(range(6), 2)
        since, until = sorted((chance.uniform(0, 4000), chance.uniform(0, 4000)))
        registrations += [said(since, member, owned), said(until, member, None, event="withdrawn")]
        for partition in owned:
            holders[partition].append((since, until, member.partition("/")[0]))
    samples = []
    fetched: dict[tuple[float, int], set[str]] = {}
    for number in range(400):
        second, partition = number * 10.0, chance.randrange(6)
        fetched[second, partition] = {group for since, until, group in holders[partition] if since <= second <= until}
        samples.append(unattributed(second, partition))
    return (samples, registrations), fetched


FETCHED = {}
for _seed in range(2):
    SCENES[f"seed {_seed}"], FETCHED[_seed] = _taking_over(_seed)


@pytest.mark.parametrize("seed", FETCHED)
def test_never_a_wrong_group(found: Found, seed: int) -> None:
    """All owners of a partition fetch it. What a group is given was fetched by no other."""
    given = found(f"seed {seed}")
    assert len(given) > 50
    for place, member in given.items():
        assert FETCHED[seed][place] <= {member.partition("/")[0]}, place
