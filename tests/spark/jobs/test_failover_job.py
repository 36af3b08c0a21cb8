"""Time to recover, computed by hand; and one slow failover among many."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster.spark.jobs.failover import JOB, moves, outages, per_kind, per_node
from muster.spark.jobs.job import Options
from tests.spark.rows import NOON, at, collected, nothing, picked, result, table


def life(at_s: float, actor: str, event: str, **changes: Any) -> dict[str, Any]:
    return {
        "ts": at(at_s),
        "actor": actor,
        "kind": actor.partition("-")[0],
        "event": event,
        "seen_by": "controller",
        "node_id": "node-1",
    } | changes


def fault(at_s: float, actor: str | None, event: str, action: str = "kill", name: str = "f-1") -> dict[str, Any]:
    return {"ts": at(at_s), "fault": name, "event": event, "action": action, "actor": actor}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    lifecycle = [
        # Killed at 10.2 s, seen at 10.5 s; a standby serves at 11.2 s, the actor itself at 20 s.
        life(0, "offsets-1", "starting", node_id=None),
        life(1, "offsets-1", "serving", epoch=4),
        life(10.5, "offsets-1", "lost", epoch=4, reason="pid 12 has ended"),
        life(11.2, "offsets-1", "serving", epoch=5, reason="standby-0 serves in its place"),
        life(12, "offsets-1", "starting", node_id=None),
        life(20, "offsets-1", "serving", epoch=6, reason="took over from standby-0"),
        # Lost twice, for 2 s and 4 s; paused before the first time, killed long before the second.
        life(0, "log-0", "serving"),
        life(100, "log-0", "lost"),
        life(101, "log-0", "starting", node_id=None),
        life(102, "log-0", "serving"),
        life(500, "log-0", "lost", node_id=None),
        life(500, "log-0", "starting", node_id=None),
        life(504, "log-0", "serving", node_id="node-2"),
        # Lost and never recovered; stopped while it was lost; moved.
        life(300, "gateway-1", "lost", node_id="node-3"),
        life(310, "gateway-2", "lost", node_id="node-3"),
        life(320, "gateway-2", "stopped", node_id="node-3"),
        life(400, "log-1", "moved", reason="to node node-2"),
        life(400.5, "log-1", "starting", node_id=None),
        life(403, "log-1", "serving", node_id="node-2"),
        # Two gateways notice that the controller is lost; the second one only when its successor serves.
        life(600, "controller", "serving", epoch=1),
        life(650, "controller", "lost", epoch=1, seen_by="gateway-1", node_id=None),
        life(653, "controller", "serving", epoch=2, node_id="node-2"),
        life(654, "controller", "lost", epoch=1, seen_by="gateway-2", node_id=None),
        life(655, "controller", "serving", epoch=2, seen_by="gateway-2", node_id=None),
        # It moves, and a gateway, whose clock is a little behind, reports that as a loss.
        life(699.9, "controller", "lost", epoch=2, seen_by="gateway-1", node_id=None),
        life(700, "controller", "moved", epoch=2, node_id="node-2"),
        life(702, "controller", "serving", epoch=3),
    ]
    faults = [
        fault(10, "offsets-1", "injected"),
        fault(10.2, "offsets-1", "fired"),
        fault(10, None, "injected", "drop", "f-2"),
        fault(200, "log-0", "injected", name="f-3"),
        fault(98, "log-0", "injected", "pause", "f-4"),  # no row says when it fired
    ]
    return table(spark, "lifecycle", lifecycle).cache(), table(spark, "faults", faults).cache()


def test_outages(rows: tuple[DataFrame, DataFrame]) -> None:
    found = outages(*rows, now=at(1_000)).collect()
    columns = ("actor", "node_id", "ending", "fault", "detect_seconds", "seconds", "open_seconds")
    assert picked(found, *columns) == [
        ("controller", "node-1", "serving", None, None, 3.0, None),
        ("gateway-1", "node-3", "open", None, None, None, 700.0),
        ("gateway-2", "node-3", "stopped", None, None, None, None),
        ("log-0", "node-1", "serving", "pause", 2.0, 4.0, None),
        ("log-0", "node-1", "serving", None, None, 4.0, None),
        ("offsets-1", "node-1", "serving", "kill", pytest.approx(0.3), 1.0, None),
    ]
    assert picked(found, "reason", "recovered_by")[-1] == ("pid 12 has ended", "standby-0 serves in its place")
    assert result(moves(*rows), "actor", "node_id", "seconds") == [
        ("controller", "node-2", 2.0),
        ("log-1", "node-1", 3.0),
    ]


def test_per_kind_and_node(rows: tuple[DataFrame, DataFrame]) -> None:
    found = outages(*rows, now=at(1_000)).cache()
    columns = ("actors", "outages", "recovered", "not_ended", "median_seconds", "p99_seconds", "max_seconds")
    assert result(per_kind(found), "kind", *columns) == [
        ("gateway", 2, 2, 0, 1, None, None, None),  # one of them does not serve now
        ("log", 1, 2, 2, 0, 4.0, 4.0, 4.0),
        ("controller", 1, 1, 1, 0, 3.0, 3.0, 3.0),
        ("offsets", 1, 1, 1, 0, 1.0, 1.0, 1.0),
    ]
    assert result(per_node(found), "node_id", "kind", "outages", "not_ended") == [
        ("node-1", "log", 2, 0),
        ("node-3", "gateway", 2, 1),
        ("node-1", "controller", 1, 0),
        ("node-1", "offsets", 1, 0),
    ]


def test_only_the_requested_time_is_reported(rows: tuple[DataFrame, DataFrame]) -> None:
    """From 400 s to 600 s: one that began in this time, and one that had not ended yet."""
    tables = dict(zip(JOB.tables, rows, strict=True))
    options = Options(start=at(400), end=at(600), now=at(600))
    sections = {section.name: section.frame for section in JOB.sections(tables, options)}
    assert result(sections["longest"], "actor", "seconds") == [("log-0", 4.0)]
    assert result(sections["open"], "actor", "open_seconds") == [("gateway-1", 300.0)]
    assert result(sections["moves"], "actor") == [("log-1",)]


def test_names_the_slow_failover(spark: SparkSession) -> None:
    """50 offsets partitions fail 4 times each within a second; one of these takes 42 s."""
    chance = random.Random(7)
    lifecycle = []
    for partition in range(50):
        for n in range(4):
            at_s, slow = 100 * n + partition, (partition, n) == (13, 2)
            took_s = 42 if slow else round(chance.uniform(0.2, 1), 3)
            lifecycle += [
                life(at_s, f"offsets-{partition}", "lost", epoch=n, node_id=f"node-{partition % 3}"),
                life(at_s + took_s, f"offsets-{partition}", "serving", epoch=n + 1),
            ]
    tables = {"lifecycle": table(spark, "lifecycle", lifecycle), "faults": table(spark, "faults", [])}
    found = collected(JOB.sections(tables, Options(now=at(1_000), top=3)), "longest", "kinds")
    assert picked(found["longest"], "actor", "seconds")[0] == ("offsets-13", 42.0)
    [(outages_, median, p99, longest)] = picked(
        found["kinds"], "outages", "median_seconds", "p99_seconds", "max_seconds"
    )
    assert (outages_, longest) == (200, 42.0)
    assert 0.2 <= median <= p99 <= 1


def test_empty_tables(spark: SparkSession) -> None:
    tables = {name: nothing(spark, name) for name in JOB.tables}
    for section in JOB.sections(tables, Options(now=NOON)):
        assert section.frame.collect() == [], section.name


def test_reads_only_what_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    frames = []
    for name, row in (("lifecycle", life(0, "log-0", "lost")), ("faults", fault(0, "log-0", "fired"))):
        table(spark, name, [row]).write.parquet(str(tmp_path / name))
        frames.append(spark.read.parquet(str(tmp_path / name)))
    plan = outages(frames[0], frames[1], now=NOON)._jdf.queryExecution().executedPlan().toString()
    read = [line.partition("ReadSchema")[2] for line in plan.splitlines() if "ReadSchema" in line]
    assert read
    for unused in ("pid", "seen_by", "detail", "client_id", "api"):
        assert not any(unused in columns for columns in read)
