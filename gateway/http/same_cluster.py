"""Refusal of requests that are meant for another cluster: the port may have been that one's before.

A request whose header ``Muster-Cluster-Id`` names another cluster gets 421, before anything is done. The response of
the right one repeats the header, so that a client also recognizes a server that does not check it. Who does not know
the id is not told it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from muster.actors.runtime.settings import CLUSTER_ID_HEADER
from muster.gateway.listener.gateway import Gateway


def add_check(app: web.Application, gateway: Gateway) -> None:
    """Check the requests of the app, which has not been started yet, before their callers."""

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.headers.get(CLUSTER_ID_HEADER, gateway.view.cluster_id) == gateway.view.cluster_id:
            return await handler(request)
        return web.json_response({"error": "this is another cluster"}, status=421)

    async def repeat(request: web.Request, response: web.StreamResponse) -> None:
        if request.headers.get(CLUSTER_ID_HEADER) == gateway.view.cluster_id:
            response.headers[CLUSTER_ID_HEADER] = gateway.view.cluster_id

    app.middlewares.insert(0, check)
    app.on_response_prepare.append(repeat)
