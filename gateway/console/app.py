"""The app: pages, downloads, login and static files behind one guard; and the server around it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Form, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from nicegui import app as nicegui_app
from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console import exports
from muster.gateway.console.api import ApiError, Gateways
from muster.gateway.console.console import STATIC, ConsoleServer
from muster.gateway.console.guard import Guard
from muster.gateway.console.login import COOKIE, set_cookie
from muster.gateway.console.model import links
from muster.gateway.console.model.links import is_local, link
from muster.gateway.console.pages import PAGES

log = logging.getLogger(__name__)

RECONNECT_S = 30.0
MAX_CONNECTIONS = 500
FAVICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20'><g fill='#3b74e0'>"
    "<rect x='1' y='1' width='8' height='8' rx='2'/><rect x='11' y='1' width='8' height='8' rx='2'/>"
    "<rect x='1' y='11' width='8' height='8' rx='2'/><rect x='11' y='11' width='8' height='8' rx='2' opacity='.4'/>"
    "</g></svg>"
)


def make_app(gateways: Gateways, *, hosts: Iterable[str] = (), tls: ssl.SSLContext | None = None) -> FastAPI:
    """Return the console for these gateways' HTTP ports. One per process: NiceGUI's app is global.

    ``hosts``: names by which browsers reach it, beside localhost and addresses. ``tls``: for gateways with https.
    """
    console = ConsoleServer(gateways, tls)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with console.running():
            yield

    app = FastAPI(title="Muster console", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.include_router(exports.make_router(console))
    _add_login(app, console)

    @app.get("/healthz")
    async def healthz() -> Response:
        return Response("serving\n", media_type="text/plain")

    for add_page in PAGES:
        add_page(console)
    nicegui_app.config.quasar_config["loadingBar"]["skipHijack"] = True  # it has no name, and says nothing
    ui.run_with(
        app,
        title="Muster",
        dark=None,
        language="en-US",
        tailwind=False,
        favicon=FAVICON,
        reconnect_timeout=RECONNECT_S,
        show_welcome_message=False,
    )
    app.add_middleware(Guard, hosts=[socket.getfqdn(), *hosts])
    return app


def _add_login(app: FastAPI, console: ConsoleServer) -> None:
    @app.post("/login")
    async def log_in(
        request: Request,
        user: Annotated[str, Form()] = "",
        password: Annotated[str, Form()] = "",
        token: Annotated[str, Form()] = "",
        next: Annotated[str, Form()] = "/",
    ) -> Response:
        where = next if is_local(next) else "/"
        try:
            key = await console.log_in(user, password, token)
        except (MusterError, ValueError) as error:
            log.info("a login failed: %s", error)
            code = "invalid" if isinstance(error, ValueError | ApiError) else "silent"
            return RedirectResponse(link(links.LOGIN, next=where, failed=code), status_code=303)
        response = RedirectResponse(where, status_code=303)
        set_cookie(response, request, key)
        return response

    @app.post("/logout")
    async def log_out(request: Request) -> Response:
        session = console.sessions.close(request.cookies.get(COOKIE, ""))
        if session is not None:
            console.watches.forget(session.authorization)
        response = RedirectResponse(links.LOGIN, status_code=303)
        set_cookie(response, request, "")
        return response


async def serve(
    gateways: Gateways,
    host: str = "",
    port: int = 0,
    ssl_context: ssl.SSLContext | None = None,
    *,
    hosts: Iterable[str] = (),
    tls: ssl.SSLContext | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Serve the console until the task is cancelled. ``ssl_context``: for browsers; ``tls``: for gateways.

    ``sockets`` that listen already may be given in place of ``host`` and ``port``.
    """
    names = [*hosts, *([] if _is_address(host) else [host])]
    config = uvicorn.Config(
        make_app(gateways, hosts=names, tls=tls),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        ws_max_size=1 << 20,
        timeout_graceful_shutdown=2,
    )
    config.load()
    if ssl_context is not None:
        config.ssl = ssl_context
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=sockets))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        server.should_exit = True
        await running
        raise


class _Server(uvicorn.Server):
    """Leaves signals to the process that it is in."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # a generator's is one, too
        return nullcontext()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not host
    return True
