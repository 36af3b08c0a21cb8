"""``GET /v1/status``: the nodes and actors as the controller sees them now, as ``muster status --json`` prints them.

503 if the controller does not respond: a gateway keeps no status of its own that could be out of date.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from muster.gateway.http.groups import Failed, as_json
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def status(_request: web.Request) -> dict[str, Any]:
        try:
            return await gateway.controller.status()
        except ControllerUnavailable as error:
            raise Failed(503, f"the controller does not respond: {error}") from error

    app.router.add_get("/v1/status", as_json(status))
