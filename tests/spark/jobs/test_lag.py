"""Lag and verdicts: one partition per case, computed by hand. Logs grow by 10 messages a second by default."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.spark.jobs.job import Options
from muster.spark.jobs.lag import JOB, gone, over_time, per_partition
from muster.spark.jobs.lag_groups import per_group, per_member, total
from tests.spark.rows import NOON, at, collected, nothing, picked, result, table

NOW_S = 600
LAST = range(510, 601, 10)
"""Times of the last ten commits, in s."""


def commit(at_s: float, offset: int | None, partition: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "ts": at(at_s),
        "offsets_partition": 7,
        "epoch": 3,
        "group": "billing",
        "topic": "flights",
        "partition": partition,
        "kind": "commit",
        "offset": offset,
        "lowest": offset,
        "previous": None,
        "commits": 1,
        "generation": 1,
        "member_id": f"m-{partition}",
        "client_id": "rdkafka",
        "host": "10.0.0.1",
    } | changes


def end(at_s: float, log_end: int, partition: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "ts": at(at_s),
        "log": 0,
        "topic": "flights",
        "partition": partition,
        "epoch": 1,
        "log_start_offset": 0,
        "log_end_offset": log_end,
        "last_append": at(at_s),
        "size_bytes": 0,
    } | changes


def growing(partition: int, **changes: Any) -> Iterable[dict[str, Any]]:
    """100 at noon, 6,100 now: 10 messages a second, a row every 10 s."""
    return (end(at_s, 100 + 10 * at_s, partition, **changes) for at_s in range(0, NOW_S + 1, 10))


def run(
    spark: SparkSession, commits: list[dict[str, Any]], ends: list[dict[str, Any]], events: list[dict[str, Any]]
) -> DataFrame:
    frames = (table(spark, *rows) for rows in (("commits", commits), ("end_offsets", ends), ("group_events", events)))
    return per_partition(*frames, now=at(NOW_S))


@pytest.fixture(scope="module")
def by_hand(spark: SparkSession) -> dict[int, Any]:
    commits = [
        commit(600, 6_100, 0),
        *(commit(s, 5 * s, 1) for s in LAST),
        *(commit(s, 2_000 + 15 * (s - 510), 2) for s in LAST),
        *(commit(s, 1_000, 3) for s in LAST),
        *(commit(s, 50 + 10 * s, 4) for s in range(210, 301, 10)),
        *(commit(s, 10 * s, 5) for s in LAST if s < 600),
        commit(600, 1_000, 5),
        *(commit(s, 200 + s // 100, 6) for s in LAST),
        commit(600, 40, 7),
        commit(600, 7_000, 8),
        *(commit(s, 10 * s, 9) for s in LAST if s < 550),
        commit(550, None, 9, kind="deleted", lowest=None, previous=5_400, commits=0),
        *(commit(s, 10 * s, 9) for s in LAST if s > 550),
        commit(500, 5, 10),
        commit(560, None, 10, kind="expired", lowest=None, previous=5, commits=0),
        commit(0, 500, 11),
        commit(605, 5_000, 12, epoch=3),
        commit(600, 5_500, 12, epoch=4),
        commit(600, 80, 13),
        *(commit(s, 6_000 + s // 100, 14) for s in LAST if s < 600),
        commit(600, 6_010, 14, lowest=5_000, previous=6_005),
        commit(600, 5_000, 15, lowest=3_000, previous=6_000),
        commit(400, 5_000, 16),
        commit(595, 100, 17),
        commit(600, 108, 18),
        commit(600, 1_000, 19, previous=1_000),
        commit(590, 1_000, 20),
        commit(600, 1_000, 20, lowest=500, previous=1_000, commits=2),
        commit(585, 90, 21),
        commit(595, 199, 21),
    ]
    ends = [
        *(row for partition in (0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 14, 15, 19, 20) for row in growing(partition)),
        *(row for row in growing(6) if row["ts"] < at(600)),
        end(600, 6_100, 6, log_start_offset=500),
        end(0, 1_000, 11, last_append=at(-50)),
        *(row for row in growing(13) if row["ts"] < at(400)),
        end(400, 50, 13, epoch=0),
        end(600, 100, 13, epoch=0),
        end(0, 5_000, 16),
        end(590, 5_100, 16),
        end(580, 100, 17, epoch=1),
        end(588, 120, 17, epoch=2),
        end(590, 100, 17, epoch=1),
        end(598, 140, 17, epoch=2),
        end(590, 100, 18),
        end(605, 110, 18),
        end(580, 100, 21),
        end(600, 200, 21, last_append=at(590)),
    ]
    return {row["partition"]: row for row in run(spark, commits, ends, []).collect()}


def event(at_s: float, number: int, name: str, members: int, group: str, **changes: Any) -> dict[str, Any]:
    return {
        "ts": at(at_s),
        "offsets_partition": 7,
        "epoch": 3,
        "number": number,
        "group": group,
        "event": name,
        "members": members,
        "reason": {"member_left": "the consumer is being closed", "member_removed": "session expired"}.get(name),
    } | changes


def story(group: str, *events: tuple[float, str, int], **changes: Any) -> list[dict[str, Any]]:
    return [
        event(at_s, number, name, members, group, **changes)
        for number, (at_s, name, members) in enumerate(events, start=1)
    ]


ALONE = ((0, "member_added", 1), (3, "generation", 1), (3, "assignment", 1))
TWO = ((0, "member_added", 1), (1, "member_added", 2), (3, "generation", 2), (3, "assignment", 2))
EMPTY = "generation"


def test_a_group_that_ended_on_purpose_has_not_stopped(spark: SparkSession) -> None:
    """Everything is read by 300 s, when the log is at 3,100, and reported at 600 s."""
    groups = {
        "cron": story("cron", *ALONE, (301, "member_left", 0), (301, EMPTY, 0)),
        "caught up": story("caught up", *ALONE, (301, "member_left", 0), (301, EMPTY, 0)),
        "lost since": story("lost since", *ALONE, (301, "member_left", 0), (301, EMPTY, 0)),
        "halfway": story("halfway", *ALONE, (301, "member_left", 0), (301, EMPTY, 0)),
        "crashed": story("crashed", *ALONE, (345, "member_removed", 0), (345, EMPTY, 0)),
        "one crashed": story("one crashed", *TWO, (301, "member_left", 1), (345, "member_removed", 0), (345, EMPTY, 0)),
        "not taken over": story("not taken over", *TWO, (300, "member_removed", 1), (301, "member_left", 0)),
        "taken over": story(
            "taken over",
            *TWO,
            *((50, "member_removed", 1), (51, "generation", 1), (51, "assignment", 1)),
            *((301, "member_left", 0), (301, EMPTY, 0)),
        ),
        "failed over": [
            *story("failed over", *TWO, (50, "member_removed", 1), (51, "generation", 1)),
            *story("failed over", (49, "restored", 1), (301, "member_left", 0), epoch=4),
        ],
        "came back": story("came back", *ALONE, (301, "member_left", 0), (400, "member_added", 1)),
        "reads on": story("reads on", *ALONE, (200, "member_left", 0), (200, EMPTY, 0)),
        "never joined": [],
    }
    partitions = {"caught up": 1, "lost since": 2}
    commits = [
        commit(s, 5 * s if group == "halfway" else 100 + 10 * s, partitions.get(group, 0), group=group)
        for group in groups
        for s in range(210, 301, 10)
    ]
    ends = [
        *growing(0),
        *(row for row in growing(1) if row["ts"] <= at(300)),
        *(row for row in growing(2) if row["ts"] < at(600)),
        end(600, 6_100, 2, log_start_offset=4_000),
    ]
    found = run(spark, commits, ends, [row for rows in groups.values() for row in rows]).cache()
    silent = "it has not committed for 300 s; its last commits were made within 100 s"
    assert {group: rest for group, *rest in result(found, "group", "verdict", "rule")} == {
        "cron": ["ENDED", "its members left 299 s ago, 1 s behind"],
        "caught up": ["OK", "no lag now"],
        "lost since": ["ENDED", "its members left 299 s ago, 1 s behind"],
        "halfway": ["STOPPED", f"{silent}; its members left, 161 s behind"],
        "crashed": ["STOPPED", f"{silent}; its last member was removed: session expired"],
        "one crashed": ["STOPPED", f"{silent}; its last member was removed: session expired"],
        "not taken over": ["STOPPED", f"{silent}; its last member was removed: session expired"],
        "taken over": ["ENDED", "its members left 299 s ago, 1 s behind"],
        "failed over": ["ENDED", "its members left 299 s ago, 1 s behind"],
        "came back": ["STOPPED", silent],
        "reads on": ["STOPPED", silent],
        "never joined": ["STOPPED", silent],
    }
    left = {group for group, left in result(found, "group", "left") if left}
    assert left == {"cron", "caught up", "lost since", "halfway", "taken over", "failed over"}
    ended = per_group(found.where("group = 'cron'"))
    columns = ("status", "verdict", "lag_messages", "ended_partitions", "catch_up_seconds")
    assert result(ended, *columns) == [("OK", "ENDED", 3_000, 1, None)]


def test_a_reset_of_offsets_is_no_commit_of_the_consumer(spark: SparkSession) -> None:
    """The members left at 301 s; a tool commits once at 400 s. One that commits for longer is a consumer itself."""
    groups = ("left", "reset", "reads on")
    tool: dict[str, Any] = {"member_id": None, "generation": None, "client_id": "muster-cli", "host": "10.0.0.9"}
    commits = [
        *(commit(s, 10 * s, group=group) for group in groups for s in range(210, 301, 10)),
        commit(400, 4_000, group="reset", **tool),
        *(commit(s, 10 * s, group="reads on", **tool) for s in (400, 410)),
    ]
    events = [row for group in groups for row in story(group, *ALONE, (301, "member_left", 0), (301, EMPTY, 0))]
    found = run(spark, commits, [*growing(0)], events).cache()
    columns = ("group", "verdict", "left", "without_members", "client_id", "offset")
    assert sorted(result(found, *columns)) == [
        ("left", "ENDED", True, True, "rdkafka", 3_000),
        ("reads on", "WARNING", False, False, "muster-cli", 4_100),
        ("reset", "ENDED", True, True, "rdkafka", 4_000),
    ]
    judged = per_group(found.withColumn("verdict", F.lit("OK")))
    assert result(total(judged), "waiting_groups", "waiting_lag_messages") == [(2, 3_100 + 2_100)]


def lag(row: Any) -> tuple[Any, ...]:
    return row["lag_messages"], row["lag_seconds"], row["lag_seconds_error"], row["verdict"]


def test_no_lag(by_hand: dict[int, Any]) -> None:
    assert lag(by_hand[0]) == (0, 0.0, 0.0, "OK")
    assert by_hand[0]["rule"] == "no lag now"
    assert by_hand[0]["catch_up_seconds"] == 0.0


def test_falls_behind(by_hand: dict[int, Any]) -> None:
    """Offset 3,000 is the first of the 100 that came between 290 and 300 s: at 290.1 s."""
    row = by_hand[1]
    assert lag(row) == (3_100, pytest.approx(309.9), 10.0, "WARNING")
    assert (row["consumed_per_second"], row["produced_per_second"], row["catch_up_seconds"]) == (5.0, 10.0, None)
    assert row["rule"] == "the lag did not fall in its last 10 rows of commits"
    assert row["complete"] == 1.0


def test_catches_up(by_hand: dict[int, Any]) -> None:
    """At 3,350 of 6,100, 5 a second faster than the producer."""
    row = by_hand[2]
    assert (row["lag_messages"], row["verdict"], row["catch_up_seconds"]) == (2_750, "OK", 550.0)


def test_commits_the_same_offset(by_hand: dict[int, Any]) -> None:
    row = by_hand[3]
    assert lag(row) == (5_100, pytest.approx(509.9), 10.0, "STALLED")
    assert (row["rule"], row["catch_up_seconds"]) == ("10 commits of the same offset", None)
    assert by_hand[19]["rule"] == "2 commits of the same offset"  # the one before the table's first row is known
    assert by_hand[20]["verdict"] == "WARNING"  # it moved back to 500 in between, and returned to its position


def test_commits_no_more(by_hand: dict[int, Any]) -> None:
    """The last commits span 90 s, and a flush window; the last one was 300 s ago. 3,050 came at 295.1 s."""
    row = by_hand[4]
    assert lag(row) == (3_050, pytest.approx(304.9), 10.0, "STOPPED")
    assert row["rule"] == "it has not committed for 300 s; its last commits were made within 100 s"
    assert row["catch_up_seconds"] is None


def test_went_back(by_hand: dict[int, Any]) -> None:
    assert (by_hand[5]["verdict"], by_hand[5]["rule"]) == ("REWIND", "it went back from 5900 and is at 1000")
    assert by_hand[5]["consumed_per_second"] == pytest.approx(800 / 90)  # moving back is not consumption
    # Within one window: from 6,000 down to 3,000 and up to 5,000, as its lowest offset shows.
    assert (by_hand[15]["verdict"], by_hand[15]["rule"]) == ("REWIND", "it went back from 6000 and is at 5000")
    # Back to 5,000 and beyond its old position: it has recovered.
    assert by_hand[14]["verdict"] == "OK"


def test_records_lost_to_retention(by_hand: dict[int, Any]) -> None:
    """At 206, and the log begins at 500, which came at 40.1 s."""
    row = by_hand[6]
    assert (row["lost_messages"], row["lag_messages"]) == (294, 5_600)
    assert row["lag_seconds"] == pytest.approx(559.9)


def test_no_end_offsets(by_hand: dict[int, Any]) -> None:
    assert lag(by_hand[7]) == (None, None, None, "OK")
    assert by_hand[7]["rule"] == "no log end is known"


def test_beyond_the_log_end(by_hand: dict[int, Any]) -> None:
    assert lag(by_hand[8]) == (0, 0.0, 0.0, "OK")
    assert by_hand[8]["beyond_end_messages"] == 900


def test_nothing_before_the_offset_was_deleted_counts(by_hand: dict[int, Any]) -> None:
    assert by_hand[9]["complete"] == 0.5
    assert 10 not in by_hand


def test_older_than_the_history(by_hand: dict[int, Any]) -> None:
    """The log was at 1,000 in its first row, and nothing came for 50 s before it."""
    assert lag(by_hand[11]) == (500, 650.0, None, "STOPPED")


def test_a_later_epoch_counts_whatever_the_clock_said(by_hand: dict[int, Any]) -> None:
    assert by_hand[12]["offset"] == 5_500


def test_topic_created_again(by_hand: dict[int, Any]) -> None:
    """Record 80 is one of the 50 that came between 580 s and 600 s."""
    assert lag(by_hand[13])[:3] == (20, pytest.approx(600 - (580 + 20 * 31 / 50)), 20.0)


def test_a_quiet_consumer_has_not_stopped_at_the_first_message(by_hand: dict[int, Any]) -> None:
    """It committed 200 s ago, but there was nothing to consume until 100 messages came, 30 to 10 s ago."""
    assert lag(by_hand[16])[3] == "OK"
    assert lag(by_hand[16])[1] == pytest.approx(30 - 0.2)


def test_clocks_of_two_owners(by_hand: dict[int, Any]) -> None:
    """Epoch 2 of the log has a clock 2 s behind epoch 1: its first row is not followed by that of the past.

    Record 100 is the first of the 20 that came between 580 and 588 s.
    """
    assert lag(by_hand[17])[:3] == (40, pytest.approx(19.6), 8.0)
    assert by_hand[17]["log_end"] == 140


def test_the_last_record_of_a_window_is_known_to_the_millisecond(by_hand: dict[int, Any]) -> None:
    """100 came between 580 and 590 s, half of them until 585 s, and none until the log's next row at 600 s."""
    row = by_hand[21]
    assert lag(row)[:3] == (1, 10.0, 0.0)
    assert row["produced_per_second"] == 5.0


def test_a_log_whose_clock_is_ahead(by_hand: dict[int, Any]) -> None:
    """Record 108 is one of the ten that came between 590 and 605 s: by that clock in 3.5 s."""
    assert lag(by_hand[18]) == (2, 0.0, 15.0, "OK")


def test_sums(spark: SparkSession) -> None:
    commits = [
        *(commit(s, 10 * s, 0) for s in LAST),
        *(commit(s, 1_000, 1) for s in LAST),
        *(commit(s, 6_000, 2, member_id="m-1") for s in LAST),
        commit(600, 6_100, 0, group="archive", member_id=None),
        *(commit(s, 5 * s, 0, group="slow") for s in (590, 600)),
        commit(600, 6_100, 1, group="slow"),
    ]
    partitions = run(spark, commits, [row for partition in range(3) for row in growing(partition)], []).cache()
    columns = ("partitions", "lag_messages", "verdict")
    groups = per_group(partitions)
    assert result(total(groups), "groups", "stuck_groups", "behind_groups", "lag_messages") == [(3, 1, 1, 8_400)]
    assert result(groups, "group", "status", *columns, "stalled_partitions", "catch_up_seconds") == [
        ("billing", "ERR", 3, 5_300, "STALLED", 1, None),
        ("slow", "WARN", 2, 3_100, "WARNING", 0, None),
        ("archive", "OK", 1, 0, "OK", 0, 0.0),
    ]
    assert result(per_member(partitions), "group", "member_id", *columns) == [
        ("billing", "m-1", 2, 5_200, "STALLED"),
        ("slow", "m-0", 1, 3_100, "WARNING"),
        ("billing", "m-0", 1, 100, "WARNING"),
        ("archive", None, 1, 0, "OK"),
        ("slow", "m-1", 1, 0, "OK"),
    ]


def test_over_time_and_gone(spark: SparkSession) -> None:
    """A group that stops falls behind by what is produced; one that is deleted and continues as another is gone."""
    commits = table(
        spark,
        "commits",
        [
            commit(0, 100),
            commit(120, 1_300),
            commit(300, None, kind="deleted", previous=1_300, member_id=None, client_id=None, host=None),
            commit(360, 1_300, group="billing-2"),
            commit(480, 4_900, group="billing-2"),
            commit(500, 1_300, group="billing-2", epoch=2),  # of the previous coordinator, whose clock was ahead
        ],
    )
    ends = table(spark, "end_offsets", growing(0))
    steps = over_time(commits, ends, step_seconds=120)
    assert [((moment.timestamp() - NOON.timestamp()), *rest) for moment, *rest in result(
        steps, "at", "group", "lag_messages", "partitions"
    )] == [
        (0.0, "billing", 0, 1),
        (120.0, "billing", 0, 1),
        (240.0, "billing", 1_200, 1),
        (360.0, "billing-2", 2_400, 1),
        (480.0, "billing-2", 0, 1),
        (600.0, "billing-2", 1_200, 1),
    ]  # fmt: skip
    idle = over_time(commits, ends, step_seconds=120, now=at(900))
    assert [(row.lag_messages, row.partitions) for row in idle.orderBy("at").tail(5)] == [
        (0, 1),  # at 480 s, as above
        *[(1_200, 1)] * 4,  # until the step of 900 s: the lag goes on, though there are no more rows
    ]
    later = over_time(commits, ends, step_seconds=120, start=at(400), end=at(500), now=at(900), groups=1)
    assert {row[0] for row in result(later, "group")} == {"billing-2"}
    came_again = [commit(0, 7), commit(60, None, kind="expired", previous=7), commit(120, 8)]
    again = table(spark, "commits", [row | {"group": "again"} for row in came_again])
    assert result(gone(commits.union(again)), "group", "topic", "partition", "how", "offset", "client_id") == [
        ("billing", "flights", 0, "deleted", 1_300, "rdkafka")
    ]


def test_names_the_stalled_partition(spark: SparkSession) -> None:
    """40 partitions with a lag of a few messages, and one that is stuck."""
    chance = random.Random(5)
    commits: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for partition in range(10):
        ends += growing(partition)
        for group in ("a", "b", "c", "d"):
            stalled = (group, partition) == ("c", 7)
            commits += [
                commit(s, 2_000 if stalled else 90 + 10 * s - chance.randrange(90), partition, group=group)
                for s in range(0, NOW_S + 1, 10)
            ]
    tables = {
        "commits": table(spark, "commits", commits),
        "end_offsets": table(spark, "end_offsets", ends),
        "group_events": nothing(spark, "group_events"),
    }
    options = Options(now=at(NOW_S), top=5, groups=frozenset("bcd"))
    sections = JOB.sections(tables, options)
    found = collected(sections, "partitions", "groups", "members")
    assert picked(found["partitions"], "group", "partition", "verdict")[0] == ("c", 7, "STALLED")
    assert picked(found["groups"], "group", "stalled_partitions")[0] == ("c", 1)
    assert len(found["groups"]) == 3
    assert len(found["members"]) == 5
    [of_all] = [section.total for section in sections if section.name == "groups" and section.total is not None]
    lag = sum(row["lag_messages"] for row in found["groups"])
    assert of_all is not None
    assert result(of_all, "groups", "stuck_groups", "behind_groups", "lag_messages") == [(3, 1, 0, lag)]


def test_empty_tables(spark: SparkSession) -> None:
    tables = {name: nothing(spark, name) for name in JOB.tables}
    for section in JOB.sections(tables, Options(now=NOON)):
        assert section.frame.collect() == [], section.name


def test_reads_only_what_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for name, row in (
        ("commits", commit(0, 1)),
        ("end_offsets", end(0, 1)),
        ("group_events", event(0, 1, "member_added", 1, "billing")),
    ):
        table(spark, name, [row]).write.parquet(str(tmp_path / name))
        frames[name] = spark.read.parquet(str(tmp_path / name))
    frame = per_partition(frames["commits"], frames["end_offsets"], frames["group_events"], now=NOON)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    read = [line for line in plan.splitlines() if "ReadSchema" in line]
    assert read
    for unused in ("size_bytes", "generation", "offsets_partition", "log:"):
        assert not any(unused in line.partition("ReadSchema")[2] for line in read)
