"""``GET /v1/audit?group=G``: the result of the last round of the audit, for one group or for all, as JSON.

``{"interval_ms": 0 if it is off, "at_ms": of the round, "rounds": N, "incomplete_rounds": N, "left_out": N, "rows":
[...]}``, rows as :meth:`muster.actors.audit.report.Row.to_json`, those with unexplained bytes first. ``at_ms`` is null
before the first round.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from muster.gateway.http.callers import Caller, current_caller
from muster.gateway.http.groups import as_json
from muster.gateway.listener.gateway import Gateway


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def audit(request: web.Request) -> dict[str, Any]:
        caller = current_caller()
        return audit_report(gateway, request.query.get("group"), caller)

    app.router.add_get("/v1/audit", as_json(audit))


def audit_report(gateway: Gateway, group: str | None, caller: Caller) -> dict[str, Any]:
    """Return the route's response, with the rows whose group and topic the caller may DESCRIBE."""
    report = gateway.audit_report
    rows = [
        row
        for row in report.rows
        if (group is None or row.group == group) and caller.sees_group(row.group) and caller.sees_topic(row.topic)
    ]
    rows.sort(key=lambda row: -row.unexplained_bytes)
    return {
        "interval_ms": gateway.config.audit_interval_ms,
        "at_ms": report.at_ms,
        "rounds": report.rounds,
        "incomplete_rounds": report.incomplete_rounds,
        "left_out": report.left_out,
        "rows": [row.to_json() for row in rows],
    }
