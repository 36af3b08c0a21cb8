"""``GET /``: leads to the console, which has a port of its own."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from urllib.parse import urlsplit, urlunsplit

from aiohttp import web

from muster.actors.config import MusterConfig
from muster.gateway.listener.gateway import Gateway
from muster.placement.host_port import host_port
from muster.placement.view import ConsoleAddress

_STARTING = "the console starts; muster status shows its state\n"


@cache
def _is_installed() -> bool:
    return find_spec("nicegui") is not None


def console_refusal(config: MusterConfig) -> str | None:
    """Return why a cluster with this configuration has no console; None if it has one."""
    if not config.console_enable:
        return "the console is off; console.enable=true enables it"
    if config.http_tls is not None and config.http_tls.client_auth == "required":
        return "there is no console where the HTTP port requires a certificate of its clients"
    if not _is_installed():
        return "the console needs the extra muster-kafka[console]"
    return None


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def console(request: web.Request) -> web.Response:
        found = gateway.view.console
        headers = {"Cache-Control": "no-store"}
        if found is not None:
            location = _seen_from(request, found, gateway.node_id)
            return web.Response(status=307, headers={**headers, "Location": location})
        if (refusal := console_refusal(gateway.started_with)) is not None:
            return web.Response(status=404, text=f"{refusal}\n", headers=headers)
        return web.Response(status=503, text=_STARTING, headers={**headers, "Retry-After": "1", "Refresh": "1"})

    app.router.add_get("/", console)


def _seen_from(request: web.Request, console: ConsoleAddress, node_id: str) -> str:
    """Return the console's URL; on this gateway's node, by the name by which the browser has found the gateway."""
    host = request.url.host
    if console.node_id != node_id or not host:
        return console.url
    found = urlsplit(console.url)
    return urlunsplit(found._replace(netloc=host_port(host, found.port or 0)))
