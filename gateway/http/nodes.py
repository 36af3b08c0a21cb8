"""Drains of nodes, as ``muster drain`` requests them from the controller.

``POST /v1/nodes/drain``, ``{"node_id"}``: has all of Muster's actors moved off the node, and none placed there.
``POST /v1/nodes/undrain``, ``{"node_id"}``: lets the node have actors again.

Both return ``{"node_id"}`` once the request is durable; ``GET /v1/status`` shows how far a drain is. They need ALTER on
the cluster and ``http.changes.enable=true``. 404 for a node that the cluster does not have, 409 for one that cannot be
drained, such as the last one, 503 if the controller does not respond.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from pydantic import Field

from muster.gateway.http.callers import changes
from muster.gateway.http.groups import Body, Failed, as_json, body_of
from muster.gateway.listener.controller import ControllerUnavailable, NodeRefused
from muster.gateway.listener.gateway import Gateway


class Node(Body):
    """The body of both routes."""

    node_id: str = Field(min_length=1)


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the routes of this module; the app has not been started yet."""
    controller = gateway.controller

    async def change(request: web.Request, done: Callable[[str], Awaitable[None]]) -> dict[str, Any]:
        node_id = (await body_of(request, Node)).node_id
        changes(request, node_id)
        try:
            known = {node["node_id"] for node in (await controller.status())["nodes"]}
            if node_id not in known:
                raise Failed(404, f"unknown node {node_id}")
            await done(node_id)
        except NodeRefused as error:
            raise Failed(409, str(error)) from error
        except ControllerUnavailable as error:
            raise Failed(503, f"the controller does not respond: {error}") from error
        return {"node_id": node_id}

    async def drain(request: web.Request) -> dict[str, Any]:
        return await change(request, controller.drain)

    async def undrain(request: web.Request) -> dict[str, Any]:
        return await change(request, controller.undrain)

    app.router.add_post("/v1/nodes/drain", as_json(drain))
    app.router.add_post("/v1/nodes/undrain", as_json(undrain))
