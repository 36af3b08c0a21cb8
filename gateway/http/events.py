"""``GET /v1/rebalances?since_ms=MS&limit=N``: the last rebalances of all groups, newest first, from any gateway.

``{"entries": [...], "more": bool, "partial": bool, "missing_partitions": [...]}``, entries as in a group's history,
without groups and topics that the caller may not DESCRIBE. They come from the memory of the coordinators, which is
bounded: older ones are in ``GET /v1/groups/history`` and the table ``rebalances``. ``more``: whether the
coordinators have further ones, which were left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from muster.gateway.http.callers import Caller, current_caller
from muster.gateway.http.groups import Failed, as_json, merged, number
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.queries import query_coordinators

DEFAULT_LIMIT, LARGEST_LIMIT = 100, 1_000
_REQUEST_TIMEOUT_S = 5.0
_MAX_BYTES = 8 << 20
"""Limit of all coordinators' responses, unless there are so many that each may give _MIN_BYTES."""
_MIN_BYTES = 128 << 10
_MAX_DIGITS = 15


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def rebalances(request: web.Request) -> dict[str, Any]:
        limit, caller = number(request, "limit", DEFAULT_LIMIT, 1, LARGEST_LIMIT), current_caller()
        query: dict[str, Any] = {
            "ask": "recent",
            "since_ms": _since_ms(request),
            "max_bytes": max(_MIN_BYTES, _MAX_BYTES // max(len(gateway.view.offsets), 1)),
            "limit": limit if caller.sees_all else _MAX_BYTES,  # rows that are hidden do not count
        }
        responses, missing = await query_coordinators(gateway, query, _REQUEST_TIMEOUT_S)
        found = merged(responses, missing)
        entries, more = newest(responses.values(), limit, caller)
        return {**found, "entries": entries, "more": more}

    app.router.add_get("/v1/rebalances", as_json(rebalances))


def newest(responses: Iterable[dict[str, Any]], limit: int, caller: Caller) -> tuple[list[dict[str, Any]], bool]:
    """Return the entries that the caller sees, newest first, and whether there are more.

    Where a coordinator has left some out, others' entries that are as old as those are left out, too: no gap is shown.
    """
    entries: list[dict[str, Any]] = []
    complete_since_ms = 0
    for response in responses:
        known = [json.loads(text) for text in response["entries"]]
        if response["more"] and known:
            complete_since_ms = max(complete_since_ms, known[-1]["ended_ms"])
        entries += known
    found = [each for each in entries if each["ended_ms"] >= complete_since_ms and caller.sees_group(each["group"])]
    found.sort(key=lambda each: (each["ended_ms"], each["offsets_partition"], each["number"]), reverse=True)
    for entry in found[:limit]:
        del entry["v"]
        entry["partitions"] = [pause for pause in entry["partitions"] if caller.sees_topic(pause["topic"])]
    return found[:limit], complete_since_ms > 0 or len(found) > limit


def _since_ms(request: web.Request) -> int:
    """Return ``since_ms``, 0 without one. Raises Failed (400)."""
    text = request.query.get("since_ms", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise Failed(400, "since_ms must be a time in ms since the Unix epoch")
    return int(text)
