"""``GET /v1/openapi.json``: the OpenAPI 3.1 description of all routes under ``/v1``.

Schemas of what clients send come from the types that check it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from aiohttp import web
from pydantic.json_schema import models_json_schema

from muster.gateway.http.analytics import NewRun
from muster.gateway.http.callers import CHANGES, RIGHTS, Right
from muster.gateway.http.group_changes import Eviction, Reset
from muster.gateway.http.nodes import Node
from muster.gateway.http.openapi import analytics, cluster, faults, groups, topics
from muster.gateway.http.openapi.parts import TEXT, Json, array, closed, content, ref
from muster.gateway.http.producing import NewRecord

_BODIES = (Eviction, Reset, Node, NewRecord, NewRun)
_ERRORS = {
    "400": "The request is not valid; problems, of a fault or a plan, names everything that is wrong.",
    "401": "Credentials are missing or not valid: HTTP Basic, or a bearer token.",
    "403": "The caller may not do this, or the cluster does not: error says which property enables it.",
    "404": "There is no such thing.",
    "409": "It cannot be done now, or not with this.",
    "415": "The body is not application/json, nor, where it is a plan, application/yaml.",
    "429": "A quota of the caller is used up.",
    "500": "The data cannot be read.",
    "503": "What has to respond does not; whether a change was made is unknown unless error says it.",
}


def add_routes(app: web.Application) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def describe(_request: web.Request) -> web.Response:
        return web.json_response(document())

    app.router.add_get("/v1/openapi.json", describe)


@cache
def document() -> Json:
    """Return the whole description; do not modify it."""
    parts = (groups, topics, cluster, analytics)
    routes = {where: route for part in parts for where, route in part.routes().items()}
    paths: dict[str, dict[str, Any]] = dict(faults.paths())
    for (method, path), route in routes.items():
        paths.setdefault(path, {})[method] = route.operation()
    for path, operations in paths.items():
        for method, operation in operations.items():
            operation["description"] = _rights((method.upper(), path))
    _, bodies = models_json_schema(
        [(body, "validation") for body in _BODIES], ref_template="#/components/schemas/{model}"
    )
    schemas = {
        **faults.schemas(),
        **{name: schema for part in parts for name, schema in part.schemas().items()},
        **bodies["$defs"],
        "Error": closed({"error": TEXT, "problems": array(TEXT)}, "error"),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "version": "1",
            "description": "The HTTP API of every gateway of a Muster, at the port of /metrics.",
        },
        "paths": dict(sorted(paths.items())),
        "security": [{}, {"basic": []}, {"bearer": []}],
        "components": {
            "schemas": schemas,
            "responses": {
                f"E{status}": {"description": text, **content(ref("Error"))} for status, text in _ERRORS.items()
            },
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _rights(route: tuple[str, str]) -> str:
    """Return what the route needs, as a sentence."""
    needs = RIGHTS.get(route, Right.NONE).value
    return f"Needs {needs}{'; and http.changes.enable=true' if route in CHANGES else ''}."
