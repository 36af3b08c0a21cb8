"""Runs of Spark's jobs as the page shows them."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from muster.gateway.analytics import runs
from muster.gateway.console.model.analytics import JOBS, last_of, read_runs, request, sections
from muster.gateway.console.model.table import Kind
from muster.gateway.http.analytics import NewRun


def test_the_jobs_are_the_same_everywhere() -> None:
    jobs = (*runs.JOBS, runs.REPORT)
    assert (tuple(JOBS), get_args(get_type_hints(NewRun)["job"])) == (jobs, jobs)


def run(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"id": "0000000001000-lag", "job": "lag", "by": "User:ann", "started_ms": 1_000}
    return {**found, "state": "running", "groups": [], "steps": [], "error": None, "ended_ms": None, **more}


def test_a_run_in_a_line() -> None:
    running, failed, done = read_runs(
        {
            "runs": [
                run(steps=["1.0 s  starting Spark"], from_ms=None),
                run(job="consumption", state="failed", ended_ms=3_000, error="no free CPU", groups=["a", "b"]),
                run(state="succeeded", started_ms=3_600_000, ended_ms=3_602_500, from_ms=0),
            ]
        }
    )
    assert running.summary(3_500).replace("\xa0", " ") == "for 2.5 s, on all tables: 1.0 s  starting Spark"
    assert failed.summary(0).replace("\xa0", " ") == "took 2.0 s, on all tables, a, b: no free CPU"
    assert done.summary(0).replace("\xa0", " ") == "took 2.5 s, on the tables of 1 h"
    assert (done.has_result, failed.has_result) == (True, False)
    assert last_of((running, failed, done), "lag") is running
    assert last_of((running,), "report") is None


def test_a_request_has_the_start_of_its_time_and_its_group() -> None:
    assert request("lag", "1h", "g", 3_600_500) == {"job": "lag", "from_ms": 500, "groups": ["g"]}
    assert request("lag", "all", "", 1) == {"job": "lag"}


def test_a_result_has_tables() -> None:
    section = {
        "title": "Bytes",
        "note": "all of them",
        "types": {"bucket": "timestamp", "bytes": "bigint", "share": "double", "clients": "array<string>"},
        "complete": False,
        "rows": [{"bucket": "1970-01-01T00:00:01+00:00", "bytes": 1024, "share": 0.5, "clients": ["a", "b"]}],
    }
    (found,) = sections({"result": {"jobs": {"consumption": {"bytes": section}}}})
    assert [column.kind for column in found.table.columns] == [Kind.TEXT, Kind.SIZE, Kind.DECIMAL, Kind.TEXT]
    assert [*found.table.rows[0].values()] == ["1970-01-01 00:00:01 UTC", 1024, 0.5, "a, b"]
    assert (found.title, found.note, found.is_complete) == ("Bytes", "all of them", False)
    assert sections({"result": None}) == []
