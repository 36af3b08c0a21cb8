"""The app: pages, downloads, login and static files behind one guard; and the server around it."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import uvicorn
from fastapi import FastAPI, Form, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from nicegui import ui

from muster.gateway.client.errors import MusterError
from muster.gateway.console import exports
from muster.gateway.console.api import UNAUTHORIZED, Api, ApiError, Gateways
from muster.gateway.console.guard import Guard
from muster.gateway.console.login import COOKIE, Session, Sessions, basic, bearer, set_cookie
from muster.gateway.console.model import groups, links
from muster.gateway.console.model.links import is_local, link
from muster.gateway.console.model.snapshot import GroupRow
from muster.gateway.console.pages import PAGES
from muster.gateway.console.watch import Watch, Watches

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
RECONNECT_S = 30.0
MAX_CONNECTIONS = 500
FAVICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20'><g fill='#3b74e0'>"
    "<rect x='1' y='1' width='8' height='8' rx='2'/><rect x='11' y='1' width='8' height='8' rx='2'/>"
    "<rect x='1' y='11' width='8' height='8' rx='2'/><rect x='11' y='11' width='8' height='8' rx='2' opacity='.4'/>"
    "</g></svg>"
)


class Console:
    """What the pages of one process share: sessions and pollers."""

    def __init__(self, gateways: Sequence[str], tls: ssl.SSLContext | None = None) -> None:
        self.gateways = Gateways(gateways)
        self.sessions = Sessions()
        self.watches = Watches(self._api)
        self.version = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()))).hexdigest()[:12]
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._chosen: dict[tuple[int, groups.Choice], tuple[int, list[GroupRow]]] = {}

    def _api(self, authorization: str | None) -> Api:
        assert self._session is not None
        return Api(self.gateways, self._session, authorization)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the connections to the gateways open."""
        connector = aiohttp.TCPConnector(limit_per_host=8, ssl=self._tls if self._tls is not None else True)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as self._session:
            try:
                yield
            finally:
                await self.watches.close()

    def viewer(self, request: Request) -> tuple[str, Session | None, Watch]:
        """Return the id of the request's session, the session, and the watch for its credentials."""
        session = self.sessions.of(request)
        authorization = None if session is None else session.authorization
        return request.cookies.get(COOKIE, ""), session, self.watches.of(authorization)

    def chosen(self, watch: Watch, choice: groups.Choice, rates: Mapping[str, float]) -> list[GroupRow]:
        """Return the groups of the choice; sorted once for each round, whatever the number of pages and viewers."""
        key, found = (id(watch), choice), self._chosen.get((id(watch), choice))
        if found is None or found[0] != watch.rounds:
            if len(self._chosen) > 100:
                self._chosen.clear()
            found = self._chosen[key] = (watch.rounds, groups.chosen(watch.now.groups, choice, rates))
        return found[1]

    async def log_in(self, user: str, password: str, token: str) -> str:
        """Return the id of a new session. Raises MusterError or ValueError if the credentials are not good."""
        authorization = bearer(token.strip()) if token.strip() else basic(user, password)
        try:
            await self._api(authorization).get("/v1/groups/lag", limit=1)
        except ApiError as error:
            if error.status == UNAUTHORIZED or error.status >= 500:
                raise
        return self.sessions.open(authorization, user or "token")


def make_app(gateways: Sequence[str], *, hosts: Iterable[str] = (), tls: ssl.SSLContext | None = None) -> FastAPI:
    """Return the console for these gateways' HTTP ports. One per process: NiceGUI's app is global.

    ``hosts``: names by which browsers reach it, beside localhost and addresses. ``tls``: for gateways with https.
    """
    console = Console(gateways, tls)

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
    app.add_middleware(Guard, hosts=[*_own_names(), *hosts])
    return app


def _own_names() -> list[str]:
    name = socket.gethostname().lower()
    return [name, *([full] if (full := socket.getfqdn().lower()) != name else [])]


def _add_login(app: FastAPI, console: Console) -> None:
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
    gateways: Sequence[str],
    host: str,
    port: int,
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
    await server.serve(sockets=sockets)


class _Server(uvicorn.Server):
    """Leaves signals to the process that it is in."""

    def install_signal_handlers(self) -> None:
        return

    def capture_signals(self) -> Any:
        return _nothing()


class _nothing:
    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return not host
    return True
