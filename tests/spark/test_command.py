"""Decisions of the process behind ``muster spark`` itself. No Spark; as a user runs it: tests/cli."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from muster.actors.runtime import rich_console
from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.spark import command, result, signals
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Options
from muster.spark.render.showing import print_results
from muster.spark.request import Request
from muster.spark.result import Column, JobFailed, JobResult, Shown, spark_errors_in_one_line
from tests.spark.arrivals import write_file

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def request(**fields: Any) -> Request:
    return Request(**{"storage": Path("/data"), "jobs": (), "options": Options(now=NOON), **fields})


def result_with(group: str) -> JobResult:
    groups = Shown(
        name="groups", title="Groups", note="", columns=[Column("group", "string", False)], rows=[(group,)], cut=False
    )
    return JobResult(job="lag", title="Lag", sections=[groups])


class Silent:
    """A progress."""

    def step(self, text: str) -> None:
        pass


def test_a_table_for_a_file_has_its_rows() -> None:
    text = command._text(request(format="table"), [result_with("billing")], [])
    assert [line.strip() for line in text.splitlines() if line.strip()] == ["lag: Lag", "Groups", "group", "billing"]


@pytest.mark.parametrize(
    ("extent", "is_terminal", "lines"),
    [
        ("", True, ["lag: Lag", "INFO: Lag"]),
        ("details", True, ["lag: Lag", "INFO: Lag", "Groups", "GROUP", "billing"]),
        ("wide", True, ["lag: Lag", "Groups", "group", "billing"]),
        ("", False, ["lag: Lag", "Groups", "group", "billing"]),
        ("details", False, ["lag: Lag", "INFO: Lag", "Groups", "GROUP", "billing"]),
    ],
)
def test_a_terminal_gets_the_summary_and_a_pipe_all_tables(
    monkeypatch: pytest.MonkeyPatch, extent: str, is_terminal: bool, lines: list[str]
) -> None:
    out = io.StringIO()

    def console(*, wide: bool = False) -> Console:
        assert wide == (extent == "wide")
        return Console(file=out, width=80, force_terminal=is_terminal, color_system=None)

    monkeypatch.setattr(rich_console, "console", console)
    monkeypatch.setattr(rich_console, "is_live", lambda console: console.is_terminal)
    command._print(request(extent=extent), [replace(result_with("billing"), job="made up", title="Lag")])
    shown = [line.strip() for line in out.getvalue().splitlines() if line.strip()]
    assert [line.replace("made up", "lag") for line in shown] == lines


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("left\u202egnp.exe", r"left\u202egnp.exe"),
        ("größe 中 😀", "größe 中 😀"),
    ],
)
def test_what_a_client_calls_itself_does_nothing_to_a_terminal(name: str, shown: str) -> None:
    out = io.StringIO()
    print_results([result_with(name)], Console(file=out, width=80, force_terminal=True, color_system=None))
    assert out.getvalue().splitlines()[-1].strip() == shown


@pytest.fixture(params=[1, 2])
def failing(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Every job fails; returns those that were run."""
    started: list[str] = []

    def fail(job: Any, *_: Any, **__: Any) -> JobResult:
        started.append(job.name)
        raise JobFailed(f"job {job.name}: cancelled")

    monkeypatch.setattr(result, "run_job", fail)
    monkeypatch.setattr(result, "tables_of", lambda *_: {})
    monkeypatch.setattr(command, "is_short", lambda _: request.param == 2)
    monkeypatch.setattr(command, "make_active", lambda _: None)
    yield started
    signals._came.clear()


def test_a_report_goes_on_after_a_job_that_failed_but_not_after_a_signal(failing: list[str]) -> None:
    jobs = [JOBS["lag"], JOBS["failover"]]
    session: Any = None
    progress: Any = Silent()
    results, damage = command._results(request(), jobs, session, progress)
    assert (results, damage) == ([], ["job lag: cancelled", "job failover: cancelled"])
    failing.clear()
    signals._came.append(2)
    with pytest.raises(command.RequestRefused):
        command._results(request(), jobs, session, progress)
    assert failing == []


@pytest.mark.parametrize(
    ("options", "earliest", "latest"),
    [
        ({}, "when they are read", "afterwards"),
        ({"end": "9999-01-01T00:00:00+00:00"}, "when they are read", "afterwards"),
        ({"end": NOON.isoformat()}, NOON, NOON),
        ({"now": NOON.isoformat()}, NOON, NOON),
    ],
)
def test_the_present_is_when_tables_are_read_not_when_spark_was_started(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], earliest: Any, latest: Any
) -> None:
    seen: list[datetime] = []
    monkeypatch.setattr(command, "is_short", lambda _: False)
    monkeypatch.setattr(result, "run_job", lambda job, session, storage, options, **_: seen.append(options.now))
    made = Request.from_json(json.dumps({"storage": "/data", "jobs": ["lag"], "options": options}))
    moments = {}

    def read(*_: Any) -> dict[str, Any]:
        moments["when they are read"] = datetime.now(UTC)
        return {}

    monkeypatch.setattr(result, "tables_of", read)
    session: Any = None
    progress: Any = Silent()
    command._results(made, [JOBS["lag"]], session, progress)
    moments["afterwards"] = datetime.now(UTC)
    (now,) = seen
    assert moments.get(earliest, earliest) <= now <= moments.get(latest, latest)


@pytest.mark.parametrize(
    ("events", "stopped"),
    [
        (["starting", "serving"], None),
        (["starting", "serving", "stopped"], 2),
        (["serving", "stopped", "starting", "serving"], None),
        (["serving", "lost"], None),
    ],
)
def test_what_was_stopped_in_order_is_judged_as_of_then(tmp_path: Path, events: list[str], stopped: int | None) -> None:
    for actor, happened in (("controller", events), ("gateway-1", ["serving", "stopped"])):
        row = {"actor": actor, "kind": actor, "seen_by": "controller"}
        for hour, event in enumerate(happened):
            write_file(
                tmp_path, LIFECYCLE, f"{actor}-{hour}", [{**row, "ts": NOON + timedelta(hours=hour), "event": event}]
            )
    then = None if stopped is None else NOON + timedelta(hours=stopped)
    assert command.stopped_at(tmp_path) == then
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\n")
    options = command._of_cluster(request(storage=tmp_path, says_now=False))
    assert (options.cluster, options.stopped) == ("abc", then)
    assert options.at_present().now == then or (then is None and options.at_present().now > NOON)
    assert command._of_cluster(request(storage=tmp_path, says_now=False, stream=True)).stopped is None


def test_unreadable_files_and_a_lost_jvm_are_reported_in_one_line() -> None:
    with pytest.raises(JobFailed, match=r"\Ajob lag: /data/metrics: Permission denied\Z"), in_lag():
        raise PermissionError(13, "Permission denied", "/data/metrics")
    with pytest.raises(JobFailed, match="the JVM of Spark has ended"), in_lag():
        raise ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(BrokenPipeError), in_lag():
        raise BrokenPipeError


def in_lag() -> Any:
    return spark_errors_in_one_line("lag")
