"""Tables as CSV and JSON, and the pages of the grid of groups: routes beside the pages, with the viewer's rights."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from muster.gateway.analytics.runs import REPORT_CSP
from muster.gateway.client.errors import MusterError
from muster.gateway.console.api import ApiError
from muster.gateway.console.model import analytics, cluster, faults, groups, links, members, topics
from muster.gateway.console.model.attribution import GROUPS, PRODUCED
from muster.gateway.console.model.audit import audit_table
from muster.gateway.console.model.table import Table
from muster.gateway.console.model.timeline import events, table_of
from muster.gateway.console.watch import Watch

if TYPE_CHECKING:
    from muster.gateway.console.console import ConsoleServer

READY_S = 4.0
_MAX_PAGE = 500
Query = Mapping[str, str]


async def _groups(watch: Watch, query: Query) -> Table:
    rates = watch.attribution.group_rates()
    return groups.table(groups.chosen(watch.now.groups, groups.Choice.of(query), rates), rates)


async def _members(watch: Watch, query: Query) -> Table:
    group = query.get("group", "")
    described = await watch.api.get("/v1/groups/describe", group=group)
    lag = await watch.api.get("/v1/groups/lag", group=group)
    return members.member_table(described, lag)


async def _partitions(watch: Watch, query: Query) -> Table:
    return members.partition_table(await watch.api.get("/v1/groups/lag", group=query.get("group", "")))


async def _rebalances(watch: Watch, query: Query) -> Table:
    await watch.fetch_history(query.get("group", ""), 200)
    return table_of(events(watch.journal.of_group(query.get("group", ""))))


async def _topics(watch: Watch, query: Query) -> Table:
    found = await watch.api.topics()
    into, out = watch.attribution.topic_rates(PRODUCED), watch.attribution.topic_rates(GROUPS)
    is_all = query.get("internal") == "1"
    return topics.topic_table(found["topics"], into, out, query=query.get("q", ""), with_internal=is_all)


async def _topic_partitions(watch: Watch, query: Query) -> Table:
    return topics.partition_table(await watch.api.get("/v1/topics/describe", topic=query.get("topic", "")))


async def _topic_groups(watch: Watch, query: Query) -> Table:
    return topics.reader_table(await watch.api.get("/v1/topics/describe", topic=query.get("topic", "")))


async def _records(watch: Watch, query: Query) -> Table:
    names = ("topic", "partition", "offset", "time_ms", "from", "limit")
    found = await watch.api.get("/v1/topics/records", **{name: query[name] for name in names if query.get(name)})
    return topics.record_table(found["records"], query.get("format", "auto"))


async def _actors(watch: Watch, query: Query) -> Table:
    return cluster.actor_table(watch.now)


async def _faults(watch: Watch, query: Query) -> Table:
    return faults.table(watch.now.faults)


async def _by_group(watch: Watch, query: Query) -> Table:
    return watch.attribution.by_group()


async def _by_principal(watch: Watch, query: Query) -> Table:
    return watch.attribution.by_principal()


async def _without_group(watch: Watch, query: Query) -> Table:
    return watch.attribution.without_group()


async def _audit(watch: Watch, query: Query) -> Table:
    return audit_table(await watch.api.get("/v1/audit"))


async def _analytics(watch: Watch, query: Query) -> Table:
    found = await watch.api.get(f"{analytics.RUNS}/{quote(query.get('run', ''), safe='')}")
    tables = [each.table for each in analytics.sections(found) if each.name == query.get("section")]
    if not tables:
        raise ApiError(404, "there is no such table")
    return tables[0]


TABLES: Mapping[str, Callable[[Watch, Query], Awaitable[Table]]] = {
    "groups": _groups,
    "members": _members,
    "partitions": _partitions,
    "rebalances": _rebalances,
    "topics": _topics,
    "topic-partitions": _topic_partitions,
    "topic-groups": _topic_groups,
    "records": _records,
    "actors": _actors,
    "faults": _faults,
    "attribution": _by_group,
    "attribution-principals": _by_principal,
    "attribution-reasons": _without_group,
    "audit": _audit,
    "analytics": _analytics,
}


def make_router(console: ConsoleServer) -> APIRouter:
    """Return the routes /data/groups, /download/NAME.csv|json, and /analytics/report/RUN."""
    router = APIRouter()

    async def ready(request: Request) -> Watch:
        _, _, watch = console.viewer(request)
        watch.lease(id(request))
        await watch.ready(READY_S)
        if watch.is_unauthorized:
            raise ApiError(401, "log in first")
        return watch

    @router.get("/data/groups")
    async def page(request: Request) -> Response:
        try:
            watch = await ready(request)
        except ApiError as error:
            return JSONResponse({"error": error.message}, status_code=error.status)
        query = dict(request.query_params)
        rates = watch.once("rates", watch.attribution.group_rates)
        found = console.chosen(watch, groups.Choice.of(query), rates)
        start, end = _number(query.get("start")), _number(query.get("end"))
        rows = groups.page(found, rates, start, min(end, start + _MAX_PAGE))
        return JSONResponse({"rows": rows, "total": len(found)})

    @router.get("/download/{name}.{suffix}")
    async def download(request: Request, name: str, suffix: str) -> Response:
        make = TABLES.get(name)
        if make is None or suffix not in ("csv", "json"):
            return JSONResponse({"error": "there is no such table"}, status_code=404)
        try:
            table = await make(await ready(request), dict(request.query_params))
        except ApiError as error:
            return JSONResponse({"error": error.message}, status_code=error.status)
        except MusterError as error:
            return JSONResponse({"error": error.message}, status_code=503)
        headers = {"Content-Disposition": f'attachment; filename="muster-{name}.{suffix}"'}
        if suffix == "csv":
            return Response(table.to_csv(), media_type="text/csv; charset=utf-8", headers=headers)
        return Response(_json(table.to_json()), media_type="application/json", headers=headers)

    @router.get(f"{links.ANALYTICS}/report/{{run}}")
    async def report(request: Request, run: str) -> Response:
        try:
            watch = await ready(request)
            text = await watch.api.text(f"{analytics.RUNS}/{quote(run, safe='')}/report")
        except ApiError as error:
            return JSONResponse({"error": error.message}, status_code=error.status)
        except MusterError as error:
            return JSONResponse({"error": error.message}, status_code=503)
        return Response(text, media_type="text/html", headers={"Content-Security-Policy": REPORT_CSP})

    return router


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 8 else 0
