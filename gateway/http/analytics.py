"""Runs of Spark's jobs, as ``muster spark`` and ``muster report`` do them; on the cluster's Ray, one at a time.

``POST /v1/analytics/runs``, ``{"job", "from_ms", "to_ms", "groups"}``: begins a run of a job, or of all jobs for the
page of ``muster report`` (``"job": "report"``). Returns it. Needs ``http.changes.enable=true``; 409 while another is in
progress.
``GET /v1/analytics/runs``: ``{"jobs": [NAME], "runs": [{"id", "job", "by", "started_ms", "ended_ms", "from_ms",
"to_ms", "groups", "state": "running"|"succeeded"|"failed"|"cancelled", "steps", "error"}]}``, newest first.
``GET /v1/analytics/runs/ID``: one of them, with ``result``: what ``muster spark JOB --json`` prints; null without one.
``GET /v1/analytics/runs/ID/report``: the page, as HTML.
``DELETE /v1/analytics/runs/ID``: ends a run early, which is then cancelled. 409 if it has ended.

All need ALTER on the cluster: results have the names of all groups and topics.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable
from typing import Any, Literal, Protocol, TypeVar

from aiohttp import web
from pydantic import Field

from muster.gateway.analytics.runs import JOBS, REPORT, REPORT_CSP, Busy, NotStarted, Run
from muster.gateway.http.callers import changes, current_caller
from muster.gateway.http.groups import Body, Failed, as_json, body_of

T = TypeVar("T")
_MAX_GROUPS = 100
_HEADERS = {
    "Content-Security-Policy": REPORT_CSP,
    "X-Content-Type-Options": "nosniff",
}


class Analytics(Protocol):
    """Runs of Spark; see :class:`muster.gateway.analytics.actor.RayAnalytics`."""

    async def start(self, run: Run) -> None:
        """Begin a run. Raises Busy or NotStarted."""

    async def runs(self) -> list[Run]:
        """Return the runs, newest first. Raises OSError."""

    async def find(self, run_id: str) -> tuple[Run, str | None] | None:
        """Return a run and its result. Raises OSError."""

    async def cancel(self, run_id: str) -> bool:
        """End a run early. Returns whether it was running."""


class NewRun(Body):
    """The body of ``POST /v1/analytics/runs``."""

    job: Literal["consumption", "lag", "rebalances", "attribution", "placement", "failover", "report"]
    from_ms: int | None = Field(None, ge=0)
    to_ms: int | None = Field(None, ge=0)
    groups: list[str] = Field(default_factory=list, max_length=_MAX_GROUPS)


def add_routes(app: web.Application, analytics: Analytics | None) -> None:
    """Serve the routes of this module; the app has not been started yet."""

    def served() -> Analytics:
        if analytics is None:
            raise Failed(503, "this gateway runs no Spark")
        return analytics

    async def begin(request: web.Request) -> dict[str, Any]:
        body = await body_of(request, NewRun)
        if body.from_ms is not None and body.to_ms is not None and body.from_ms >= body.to_ms:
            raise Failed(400, "from_ms must be before to_ms")
        run = Run.requested(
            body.job,
            by=current_caller().principal,
            now_ms=time.time_ns() // 1_000_000,
            from_ms=body.from_ms,
            to_ms=body.to_ms,
            groups=tuple(body.groups),
        )
        changes(request, run.id)
        try:
            await served().start(run)
        except Busy as error:
            raise Failed(409, str(error)) from error
        except NotStarted as error:
            raise Failed(503, str(error)) from error
        return run.to_json()

    async def runs(_request: web.Request) -> dict[str, Any]:
        found = await _read(served().runs())
        return {"jobs": [*JOBS, REPORT], "runs": [run.to_json() for run in found]}

    async def one(request: web.Request) -> dict[str, Any]:
        run, result = await _found(served(), request)
        return {**run.to_json(), "result": None if result is None or run.job == REPORT else json.loads(result)}

    async def cancel(request: web.Request) -> dict[str, Any]:
        run, _ = await _found(served(), request)
        changes(request, run.id)
        if not await served().cancel(run.id):
            raise Failed(409, f"run {run.id} has ended")
        return {"id": run.id}

    async def report(request: web.Request) -> web.Response:
        try:
            run, text = await _found(served(), request)
        except Failed as failed:
            return web.json_response({"error": str(failed)}, status=failed.status)
        if run.job != REPORT or text is None:
            return web.json_response({"error": f"run {run.id} has no page"}, status=404)
        return web.Response(text=text, content_type="text/html", headers=_HEADERS)

    app.router.add_post("/v1/analytics/runs", as_json(begin))
    app.router.add_get("/v1/analytics/runs", as_json(runs))
    app.router.add_get("/v1/analytics/runs/{id}", as_json(one))
    app.router.add_delete("/v1/analytics/runs/{id}", as_json(cancel))
    app.router.add_get("/v1/analytics/runs/{id}/report", report)


async def _read(reading: Awaitable[T]) -> T:
    try:
        return await reading
    except OSError as error:
        raise Failed(500, f"the runs cannot be read: {error}") from error


async def _found(analytics: Analytics, request: web.Request) -> tuple[Run, str | None]:
    found = await _read(analytics.find(request.match_info["id"]))
    if found is None:
        raise Failed(404, f"there is no run {request.match_info['id']}")
    return found
