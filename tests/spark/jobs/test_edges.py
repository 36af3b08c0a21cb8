"""Tables after unusual events: each job still gives the right result, or names the invalid file.

One small world on disk, in the night of 2026-11-01, in which New York's clocks show the hour from one to two twice
(05:00Z to 07:00Z); Python and the JVM use that zone. Nothing was written from 07:00Z to 08:00Z.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from muster.actors.tables.hours import TableDamaged
from muster.actors.tables.parquet import write_whole
from muster.actors.tables.rollup import hour_folder
from muster.actors.tables.schemas import TABLES
from muster.spark.jobs import JOBS
from muster.spark.jobs.attribution_holes import holes, volumes
from muster.spark.jobs.job import Job, Options
from muster.spark.result import Shown, run_job, tables_of

Row = dict[str, Any]
ZONE = "America/New_York"
FRAME = re.compile(r"specifiedwindowframe\((Row|Range)Frame, ([^,]+), ([^)]+)\)")
NOW = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)


def z(clock: str) -> datetime:
    """``05:59:58`` of that night, UTC."""
    return datetime.fromisoformat(f"2026-11-01T{clock}+00:00")


@pytest.fixture(scope="module", autouse=True)
def in_new_york(spark: SparkSession) -> Iterator[None]:
    zones = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before, jvm_before = os.environ.get("TZ"), zones.getDefault()
    os.environ["TZ"] = ZONE
    time.tzset()
    zones.setDefault(zones.getTimeZone(ZONE))
    yield
    zones.setDefault(jvm_before)
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def put(storage: Path, name: str, rows: Sequence[Row]) -> None:
    """Write a file per hour; columns that a row omits are null, 0, or an empty text or list."""
    schema, time_column = TABLES[name].arrow, TABLES[name].time_column
    by_hour: dict[str, list[Row]] = {}
    for row in rows:
        whole = {field.name: row.get(field.name, _nothing(field)) for field in schema}
        by_hour.setdefault(hour_folder(int(whole[time_column].timestamp() * 1000)), []).append(whole)
    for folder, held in by_hour.items():
        write_whole(pa.Table.from_pylist(held, schema=schema), storage / "metrics" / name / folder / "writer-1.parquet")


def _nothing(field: pa.Field) -> Any:
    if field.nullable:
        return None
    if pa.types.is_list(field.type):
        return []
    return "" if pa.types.is_string(field.type) else 0


def commit(clock: str, group: str, offset: int | None, previous: int | None = None, kind: str = "commit") -> Row:
    return {
        "ts": z(clock),
        "epoch": 1,
        "group": group,
        "topic": "flights",
        "kind": kind,
        "offset": offset,
        "lowest": offset,
        "previous": previous,
        "commits": int(offset is not None),
    }


def log_end(clock: str, offset: int) -> Row:
    return {"ts": z(clock), "topic": "flights", "epoch": 1, "log_end_offset": offset, "last_append": z(clock)}


def rebalance(began: str, ended: str, number: int) -> Row:
    times = {"began": z(began), "ended": z(ended)}
    return times | {"group": "storming", "number": number, "ending": "stable", "cause": "member joined"}


def life(clock: str, actor: str, event: str) -> Row:
    return {"ts": z(clock), "actor": actor, "kind": actor.partition("-")[0], "event": event, "node_id": "node-1"}


def killed(clock: str, event: str, actor: str) -> Row:
    return {"ts": z(clock), "fault": "f-1", "event": event, "action": "kill", "actor": actor}


def registered(clock: str, group: str, sequence: int, event: str = "registered") -> Row:
    who = {"group": group, "member_id": f"{group}-1", "client_id": "rdkafka", "host": "10.0.0.1", "kind": "member"}
    return {"ts": z(clock), "sequence": sequence, "event": event, "partitions": [FLIGHTS_0], **who}


FLIGHTS_0 = {"topic": "flights", "partition": 0}


def sample(clock: str, *, until: str | None = None, gateway: int = 0, reason: str | None = None, first: int = 0) -> Row:
    return {
        "ts": z(clock),
        "last_ts": z(until or clock),
        "gateway": gateway,
        "group": None if reason else "billing",
        "reason": reason,
        "client_id": "rdkafka",
        "host": "10.0.0.1",
        "topic": "flights",
        "messages": 10,
        "bytes": 1_000,
        "first_offset": first,
        "last_offset": first + 9,
    }


WORLD: Mapping[str, Sequence[Row]] = {
    "commits": [
        commit("05:30:00", "old-name", 0),  # renamed: it continues as the next one
        commit("08:29:50", "new-name", 200),
        commit("05:50:00", "orders", 100),
        commit("06:10:00", "orders", None, 100, "deleted"),  # in local time 40 minutes before the commit
        commit("08:29:50", "orders", 40),
        commit("05:50:00", "removed", 100),
        commit("06:10:00", "removed", None, 100, "deleted"),
    ],
    "end_offsets": [log_end("05:00:00", 0), log_end("05:40:00", 100), log_end("08:29:40", 200)],
    "rebalances": [
        *(rebalance(f"05:5{minute}:00", f"05:5{minute}:10", minute) for minute in (5, 7)),
        rebalance("05:59:50", "06:00:20", 9),  # in local time it ended an hour before it began
        rebalance("06:01:00", "06:01:10", 10),
        rebalance("06:03:00", "06:02:50", 11),  # the coordinator's clock was set back
    ],
    "lifecycle": [
        life("05:00:00", "log-0", "serving"),
        life("05:00:00", "gateway-1", "serving"),
        life("05:59:58", "log-0", "lost"),
        life("06:00:02", "log-0", "serving"),
        life("08:10:01", "gateway-1", "lost"),
        life("08:10:03", "gateway-1", "serving"),
        life("05:00:00", "offsets-0", "serving"),
    ],
    "faults": [
        killed("05:59:57", "injected", "gateway-1"),  # two runs of Muster: both name their first fault f-1
        killed("05:59:57", "fired", "gateway-1"),
        killed("08:10:00", "injected", "gateway-1"),
        killed("08:10:00", "fired", "gateway-1"),
    ],
    "registrations": [
        registered("05:00:00", "billing", 1),
        registered("06:00:00", "billing", 2, "withdrawn"),
        registered("06:00:00", "archive", 3),
    ],
    "samples": [
        sample("05:30:00", reason="unknown"),  # billing's
        sample("06:30:00", reason="unknown", first=10),  # the same local time: archive's
        sample("05:59:58", until="06:00:02", reason="unknown", first=20),  # ambiguous
        sample("05:59:31", reason="unknown", first=30, gateway=1),  # archive's if the gateway's clock is 29 s behind
    ],
    "group_events": [
        {"ts": z("05:00:00"), "group": "orders", "event": "generation", "number": 1, "members": 3},
        {"ts": z("06:10:00"), "group": "orders", "event": "group_removed", "number": 2, "members": 0},
        {"ts": z("08:29:00"), "group": "orders", "event": "generation", "number": 3, "members": 1},
    ],
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    storage = tmp_path_factory.mktemp("storage")
    for name, rows in WORLD.items():
        put(storage, name, rows)
    return storage


@pytest.fixture(scope="module")
def sections(spark: SparkSession, storage: Path) -> Any:
    """Return a function that gives the rows of one section of a job, as mappings; no other section is computed."""

    def rows(job: str, section: str, **options: Any) -> list[dict[str, Any]]:
        shown = _only(JOBS[job], section, spark, storage, Options(now=NOW, **options))
        names = [column.name for column in shown.columns]
        return [dict(zip(names, row, strict=True)) for row in shown.rows]

    return rows


def _only(job: Job, name: str, spark: SparkSession, storage: Path, options: Options) -> Shown:
    tables = tables_of(job, spark, storage, options)
    [section] = [section for section in job.sections(tables, options) if section.name == name]
    alone = Job(name=job.name, title=job.title, tables=job.tables, sections=lambda *_: [section])
    [shown] = run_job(alone, spark, storage, options, tables=tables).sections
    return shown


def picked(rows: Sequence[Mapping[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_a_group_renamed_deleted_or_made_again(sections: Any) -> None:
    """For orders, only what came after its deletion counts. Record 40 came 8.2 s after 05:39:40."""
    rows = sections("lag", "partitions")
    assert picked(rows, "group", "lag_messages", "verdict", "complete") == [
        ("old-name", 200, "STOPPED", 0.1),
        ("orders", 160, "OK", 0.1),
        ("new-name", 0, "OK", 0.1),
    ]
    assert rows[1]["lag_seconds"] == pytest.approx((NOW - z("05:39:48.200")).total_seconds())
    assert picked(sections("lag", "gone"), "group", "how", "at") == [("removed", "deleted", z("06:10:00"))]


VERDICTS: Mapping[str, tuple[Sequence[tuple[float, int]], Sequence[tuple[float, int]], str, str]] = {
    "silent for as long as its commits span": (
        [(second, 300 + second) for second in range(-190, -90, 10)],
        [(-300, 1000)],
        "OK",
        "the lag fell, or there are too few commits to tell",
    ),
    "a millisecond longer": (
        [(second - 0.001, 300 + second) for second in range(-190, -90, 10)],
        [(-300, 1000)],
        "STOPPED",
        "it has not committed for 100 s; its last commits were made within 100 s",
    ),
    "no lag until 100 s ago": (
        [(-500, 100)],
        [(-1000, 100), (-100, 101)],
        "STOPPED",
        "it has not committed for 500 s; its last commits were made within 10 s",
    ),
    "a millisecond later": (
        [(-500, 100)],
        [(-1000, 100), (-99.999, 101)],
        "OK",
        "there was no lag at one of its last commits",
    ),
    "back where it was": (
        [(-20, 500), (-10, 300), (0, 500)],
        [(-1000, 900)],
        "OK",
        "the lag fell, or there are too few commits to tell",
    ),
    "not quite": ([(-20, 500), (-10, 300), (0, 499)], [(-1000, 900)], "REWIND", "it went back from 500 and is at 499"),
    "back from where there was no lag": (
        [(-10, 900), (0, 0)],
        [(-1000, 900)],
        "REWIND",
        "it went back from 900 and is at 0",
    ),
    "twice the same": ([(-10, 50), (0, 50)], [(-1000, 900)], "STALLED", "2 commits of the same offset"),
    "a lag that stays": (
        [(-10, 50), (0, 60)],
        [(-10, 100), (0, 110)],
        "WARNING",
        "the lag did not fall in its last 2 rows of commits",
    ),
    "a lag that falls by one": (
        [(-10, 50), (0, 61)],
        [(-10, 100), (0, 110)],
        "OK",
        "the lag fell, or there are too few commits to tell",
    ),
}
"""Places of one partition's offset and of the log's end, each with its time (in s from now); verdict and rule."""


def test_each_rule_at_its_boundary(spark: SparkSession, tmp_path: Path) -> None:
    def moment(second: float) -> str:
        return (NOW + timedelta(seconds=second)).time().isoformat()

    commits, ends = [], []
    for partition, (offsets, log, _, _) in enumerate(VERDICTS.values()):
        commits += [{**commit(moment(at), "g", offset), "partition": partition} for at, offset in offsets]
        ends += [{**log_end(moment(at), offset), "partition": partition} for at, offset in log]
    put(tmp_path, "commits", commits)
    put(tmp_path, "end_offsets", ends)
    shown = _only(JOBS["lag"], "partitions", spark, tmp_path, Options(now=NOW))
    found = sorted(zip(*map(shown.values, ("partition", "verdict", "rule")), strict=True))
    names = list(VERDICTS)
    assert {names[partition]: rest for partition, *rest in found} == {
        name: [verdict, rule] for name, (_, _, verdict, rule) in VERDICTS.items()
    }
    shown = _only(JOBS["lag"], "groups", spark, tmp_path, Options(now=NOW, commits_flush_ms=600_000))
    assert shown.values("stopped_partitions") == [0]  # such a cluster writes a row every ten minutes


def test_lag_over_a_night_with_a_missing_hour(sections: Any) -> None:
    rows = [row for row in sections("lag", "over_time", bucket_seconds=3600) if row["group"] in ("orders", "old-name")]
    assert picked(rows, "at", "group", "lag_messages") == [
        (z("06:00:00"), "old-name", 100),
        (z("07:00:00"), "old-name", 100),
        (z("08:00:00"), "old-name", 100),
        (z("09:00:00"), "old-name", 200),
        (z("06:00:00"), "orders", 0),
        (z("09:00:00"), "orders", 160),
    ]


def test_rebalances_while_the_clocks_change(sections: Any) -> None:
    assert picked(sections("rebalances", "longest"), "seconds") == [(30.0,), (10.0,), (10.0,), (10.0,), (0.0,)]
    [storm] = sections("rebalances", "storms")
    assert (storm["began"], storm["ended"], storm["rebalances"]) == (z("05:55:00"), z("06:02:50"), 5)
    [group] = sections("rebalances", "groups")
    assert group["per_hour"] == 5.0  # within 8 minutes, which is not a rate of 38 an hour
    [group] = sections("rebalances", "groups", start=z("05:30:00"))
    assert group["per_hour"] == 5 / 3  # until now, which is 08:30


def test_an_outage_while_the_clocks_change_and_faults_of_two_runs(sections: Any) -> None:
    assert picked(sections("failover", "longest"), "actor", "seconds", "fault", "detect_seconds") == [
        ("log-0", 4.0, None, None),
        ("gateway-1", 3.0, "kill", 1.0),
    ]


def test_history_gives_a_group_only_where_no_clock_may_be_wrong(sections: Any) -> None:
    assert picked(sections("attribution", "reattributed_groups"), "group", "messages") == [
        ("archive", 10),
        ("billing", 10),
    ]
    assert sections("attribution", "drift") == []  # first commits imply nothing, whatever the group read before


def test_placement_counts_a_group_that_was_made_again_once(sections: Any) -> None:
    [partition] = sections("placement", "partitions")
    assert (partition["groups"], partition["members"], partition["commits"], partition["events"]) == (6, 5, 5, 3)


def test_a_quiet_hour_has_no_hole(spark: SparkSession, tmp_path: Path) -> None:
    """One fetch without a label on a gateway that sends little, a clock two minutes ahead, and a group that starts:
    its first minute was sent before it was known."""
    minutes = [z("05:45:00") + timedelta(minutes=minute) for minute in range(30)]
    rows = [sample(f"{minute:%H:%M:%S}") for minute in minutes]
    rows += [sample(f"{minute + timedelta(minutes=2):%H:%M:%S}", gateway=1) for minute in minutes]
    rows += [sample("06:05:30", reason="no_group"), sample("06:12:30", gateway=1, reason="no_group")]
    rows += [{**sample("06:10:05", reason="no_group"), "client_id": "starts", "bytes": 50_000}]
    rows += [{**sample(f"06:1{minute}:05"), "client_id": "starts", "group": "starts"} for minute in range(1, 5)]
    put(tmp_path, "samples", rows)
    tables = tables_of(JOBS["attribution"], spark, tmp_path, Options())
    assert holes(volumes(tables["samples"], seconds=60), tables["lifecycle"], seconds=60).collect() == []


def test_no_window_takes_quadratic_time(spark: SparkSession, tmp_path: Path) -> None:
    """Spark iterates over frames to the end of a partition, and over sliding times, anew for each row."""
    spark.conf.set("spark.sql.debug.maxToStringFields", "10000")
    for job in map(JOBS.__getitem__, ("lag", "rebalances", "attribution", "failover")):
        for section in job.sections(tables_of(job, spark, tmp_path, Options()), Options()):
            plan = section.frame._jdf.queryExecution().analyzed().toString()
            for kind, first, last in FRAME.findall(plan):
                grows = first.startswith("unboundedpreceding")
                assert grows or (kind == "Row" and "unbounded" not in last), (job.name, section.name, first, last)
    assert FRAME.search(plan), "frames are written in another way"


@pytest.mark.parametrize(
    ("job", "table"), [(job.name, table) for job in JOBS.values() for table in job.tables], ids="-".join
)
def test_a_corrupt_file_is_named(spark: SparkSession, tmp_path: Path, job: str, table: str) -> None:
    put(tmp_path, table, WORLD[table][:1])
    [file] = (tmp_path / "metrics").rglob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableDamaged, match=f"{table}/date=2026-11-01/hour=0[58]/writer-1.parquet: "):
        run_job(JOBS[job], spark, tmp_path, Options(now=NOW))
