"""Runs of Spark's jobs, and the tables of their results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from muster.gateway.console.model import text
from muster.gateway.console.model.table import Column, Kind, Table

RUNS = "/v1/analytics/runs"
REPORT = "report"
RUNNING, SUCCEEDED = "running", "succeeded"
JOBS: Mapping[str, str] = {
    "consumption": "Bytes sent to each group, over days.",
    "lag": "How far groups were behind, when, and whether they caught up.",
    "rebalances": "How many, why, and what they cost.",
    "attribution": "Bytes without a group, and their likely owners.",
    "placement": "Load of partitions, actors and nodes, and what other numbers would do.",
    "failover": "How long it took to recover.",
    REPORT: "All of it as a page, with plots.",
}
"""Jobs, and what each answers."""
RANGES: Mapping[str, int | None] = {"1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000, "all": None}
"""Times that a run can be about, in seconds before now."""
_WHOLE = ("bigint", "int", "smallint", "tinyint")
_UTC = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?\+00:00")
_FRACTIONS = ("double", "float", "decimal")


class Run(NamedTuple):
    """One run."""

    id: str
    job: str
    by: str
    state: str
    started_ms: int
    ended_ms: int | None
    steps: tuple[str, ...]
    error: str
    groups: tuple[str, ...]
    range_text: str

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.state == RUNNING

    @property
    def has_result(self) -> bool:
        """Whether there is something to look at."""
        return self.state == SUCCEEDED

    def summary(self, now_ms: int) -> str:
        """Return what a line says of it."""
        took = text.duration_ms((self.ended_ms if self.ended_ms is not None else now_ms) - self.started_ms)
        about = f"on {self.range_text}" + (f", {', '.join(self.groups)}" if self.groups else "")
        if self.is_running:
            return f"for {took}, {about}: {self.steps[-1] if self.steps else 'starting'}"
        return f"took {took}, {about}" + (f": {self.error}" if self.error else "")


def read_runs(response: Mapping[str, Any]) -> tuple[Run, ...]:
    """Return the runs of a response, newest first."""
    return tuple(_run(each) for each in response.get("runs") or ())


def _run(found: Mapping[str, Any]) -> Run:
    from_ms, to_ms = found.get("from_ms"), found.get("to_ms")
    if from_ms is None:
        about = "all tables" if to_ms is None else "all tables until then"
    else:
        about = f"the tables of {text.duration_ms((to_ms or found['started_ms']) - from_ms)}"
    return Run(
        id=str(found["id"]),
        job=str(found["job"]),
        by=str(found.get("by") or ""),
        state=str(found["state"]),
        started_ms=int(found["started_ms"]),
        ended_ms=found.get("ended_ms"),
        steps=tuple(map(str, found.get("steps") or ())),
        error=str(found.get("error") or ""),
        groups=tuple(map(str, found.get("groups") or ())),
        range_text=about,
    )


def last_of(runs: Iterable[Run], job: str) -> Run | None:
    """Return the newest run of a job."""
    return next((run for run in runs if run.job == job), None)


def request(job: str, range_name: str, group: str, now_ms: int) -> dict[str, Any]:
    """Return the body that begins a run."""
    seconds = RANGES.get(range_name)
    body: dict[str, Any] = {"job": job}
    if seconds is not None:
        body["from_ms"] = now_ms - seconds * 1_000
    if group:
        body["groups"] = [group]
    return body


class Section(NamedTuple):
    """A table of a result."""

    name: str
    title: str
    note: str
    table: Table
    is_complete: bool


def sections(found: Mapping[str, Any]) -> list[Section]:
    """Return the tables of a run's result."""
    jobs: Mapping[str, Any] = (found.get("result") or {}).get("jobs") or {}
    return [_section(name, each) for parts in jobs.values() for name, each in parts.items()]


def _section(name: str, found: Mapping[str, Any]) -> Section:
    columns = tuple(_column(column, str(kind)) for column, kind in (found.get("types") or {}).items())
    rows = [{key: _plain(value) for key, value in row.items()} for row in found.get("rows") or ()]
    return Section(
        name,
        str(found.get("title") or name),
        str(found.get("note") or ""),
        Table(columns, rows),
        bool(found.get("complete", True)),
    )


def _column(name: str, kind: str) -> Column:
    label = name.replace("_", " ").capitalize()
    if kind in _WHOLE:
        return Column(name, label, Kind.SIZE if name == "bytes" or name.endswith("_bytes") else Kind.COUNT)
    return Column(name, label, Kind.DECIMAL if kind.startswith(_FRACTIONS) else Kind.TEXT)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    if isinstance(value, str) and (utc := _UTC.fullmatch(value)) is not None:
        return f"{utc[1]} {utc[2]} UTC"
    return value
