"""The gateway's HTTP server, in its own event loop: /metrics for Prometheus, /healthz, and the APIs about groups."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client.exposition import choose_encoder

from muster.actors.wire.limited_log import LimitedLog
from muster.actors.wire.sockets.held import Listening, listening_sockets
from muster.gateway.http import attribution as http_attribution
from muster.gateway.http import audit as http_audit
from muster.gateway.http import cluster as http_cluster
from muster.gateway.http import console as http_console
from muster.gateway.http import events as http_events
from muster.gateway.http import faults as http_faults
from muster.gateway.http import group_changes as http_group_changes
from muster.gateway.http import groups as http_groups
from muster.gateway.http import lag as http_lag
from muster.gateway.http import nodes as http_nodes
from muster.gateway.http import producing as http_producing
from muster.gateway.http import prometheus as http_prometheus
from muster.gateway.http import records as http_records
from muster.gateway.http import same_cluster
from muster.gateway.http import status as http_status
from muster.gateway.http import stream as http_stream
from muster.gateway.http import topics as http_topics
from muster.gateway.http.callers import Callers, current_caller
from muster.gateway.http.openapi import document as http_openapi
from muster.gateway.lag.metrics import scrape_lag
from muster.gateway.lag.shared import SharedLags
from muster.gateway.listener.server import GatewayServer
from muster.gateway.metrics.audit import write_audit
from muster.gateway.metrics.exposition import Section, expose
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.gateway.metrics.groups import scrape
from muster.gateway.metrics.names import HiddenNames, key_of
from muster.gateway.metrics.reconciler import Status, reconciler_status
from muster.gateway.metrics.transactions import scrape_transactions
from muster.placement.host_port import host_port

_http_log = logging.getLogger("aiohttp.server")
limited_log = LimitedLog(_http_log)
"""Lines about requests that are no HTTP."""
_IDLE_S = 75.0
"""aiohttp's default is an hour. Scrapes are more frequent."""
_MAX_BODY_BYTES = 256 << 10
"""Decompressed. The largest bodies are plans of faults."""
_MAX_AT_ONCE, _MAX_PER_HOST = 64, 16
"""Responses that are made or sent; what slow readers cost is bounded."""
_SEND_S = 30.0
_HEALTH = "/healthz"
_UNBOUNDED = frozenset({_HEALTH, http_stream.EVENTS})


class PortTaken(OSError):
    """Another process listens on the requested port."""


def gateway_app(gateway: GatewayServer, reconciler: Status | None = None) -> web.Application:
    """Everything that a gateway serves over HTTP. ``reconciler`` fetches the reconciler's status."""

    async def fetch() -> tuple[Section, ...]:
        groups, lag, transactions, mapping = await asyncio.gather(
            scrape(gateway),
            scrape_lag(gateway),
            scrape_transactions(gateway),
            reconciler_status(reconciler, gateway.view, gateway.id),
        )
        return groups.write, lag.write, transactions.write, partial(write_audit, gateway=gateway), mapping.write

    callers = Callers(gateway)
    app = make_app(gateway.metrics, lambda: gateway.serving, fetch, callers.middleware, partial(_hidden_names, gateway))
    same_cluster.add_check(app, gateway)
    http_attribution.add_routes(app, gateway)
    http_audit.add_routes(app, gateway)
    http_events.add_routes(app, gateway)
    http_stream.add_routes(app, gateway)
    http_groups.add_routes(app, gateway)
    lags = SharedLags(gateway)
    http_lag.add_routes(app, gateway, lags)
    http_topics.add_routes(app, gateway, lags)
    http_records.add_routes(app, gateway)
    http_producing.add_routes(app, gateway)
    http_prometheus.add_routes(app, gateway)
    http_status.add_routes(app, gateway, reconciler)
    http_faults.add_routes(app, gateway)
    http_openapi.add_routes(app)
    http_cluster.add_routes(app, gateway)
    http_console.add_routes(app, gateway)
    http_group_changes.add_routes(app, gateway)
    http_nodes.add_routes(app, gateway)
    return app


def make_app(
    gateway: GatewayMetrics,
    is_serving: Callable[[], bool],
    fetch: Callable[[], Awaitable[tuple[Section, ...]]] | None = None,
    middleware: Any = None,
    hidden: Callable[[], Callable[[str], str] | None] = lambda: None,
) -> web.Application:
    """Return an app with GET /metrics and GET /healthz; callers may add routes before it is started.

    ``hidden`` changes the labels of series for the sender of the request. OSError fails the scrape.

    /metrics responds in the format that Accept requests: OpenMetrics, else Prometheus' text format 0.0.4. It has what
    the gateway counted, and what actors reported, which ``fetch`` fetches.
    /healthz responds 200 while the gateway serves Kafka clients, else 503.
    """

    async def metrics(request: web.Request) -> web.Response:
        content_type = _content_type(request.headers.get("Accept", ""))
        openmetrics = content_type.startswith("application/openmetrics-text")
        found = () if fetch is None else await fetch()
        sections = (*gateway.sections(), *found)
        hide = hidden()
        body = await asyncio.to_thread(expose, gateway.gateway, sections, openmetrics=openmetrics, hide=hide)
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="serving\n") if is_serving() else web.Response(status=503, text="not serving\n")

    middlewares = (bounded(), *(() if middleware is None else (middleware,)))
    app = web.Application(middlewares=middlewares, client_max_size=_MAX_BODY_BYTES)
    app.router.add_get("/metrics", metrics)
    app.router.add_get(_HEALTH, healthz)
    return app


def bounded(*, at_once: int = _MAX_AT_ONCE, per_host: int = _MAX_PER_HOST, send_s: float = _SEND_S) -> Any:
    """Middleware that limits what slow readers cost.

    503 beyond a number of responses; the end of the connection if the client takes longer to read. /healthz is always
    served. Not bounded is what has no body in memory: plans of faults, which respond line by line, and streams of
    events, which have limits of their own.
    """
    hosts: Counter[str] = Counter()

    @web.middleware
    async def middleware(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD") or request.path in _UNBOUNDED:
            return await handler(request)
        host = request.remote or ""
        if hosts[host] >= per_host or hosts.total() >= at_once:
            text = "too many requests are being served; try again"
            return web.json_response({"error": text}, status=503, headers={"Retry-After": "1"})
        hosts[host] += 1
        try:
            response = await handler(request)
            await _send(request, response, send_s)
            return response
        finally:
            hosts[host] -= 1
            if not hosts[host]:
                del hosts[host]

    return middleware


async def _send(request: web.Request, response: web.StreamResponse, send_s: float) -> None:
    """aiohttp, which would wait for as long as the client keeps the connection, finds it sent."""
    with contextlib.suppress(ConnectionError):  # aiohttp finds that out, too
        try:
            async with asyncio.timeout(send_s):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()


def _content_type(accept: str) -> str:
    """Return the format that Accept requests; the default one if it cannot be read."""
    try:
        return choose_encoder(accept)[1]
    except (TypeError, ValueError):  # a version that is not a number
        return choose_encoder("")[1]


def _hidden_names(gateway: GatewayServer) -> HiddenNames | None:
    caller = current_caller()
    if caller.sees_all:
        return None
    key = key_of(gateway.storage) if gateway.started_with.metrics_hash_names else None
    return HiddenNames(caller.sees_group, caller.sees_topic, sees_clients=caller.sees_cluster(), key=key)


class _Runner(web.AppRunner):
    """Closes connections beyond a number at once."""

    max_connections: int

    @property
    def server(self) -> Any:
        """Factory of the protocol of a connection."""
        server = super().server

        def serve() -> asyncio.Protocol:
            assert server is not None
            return _Refused() if len(server.connections) >= self.max_connections else server()

        return None if server is None else serve


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def start_http(
    app: web.Application,
    host: str,
    port: int,
    listening: Listening = listening_sockets,
    context: ssl.SSLContext | None = None,
    *,
    max_connections: int = 1_000,
    idle_s: float = _IDLE_S,
) -> tuple[web.AppRunner, int]:
    """Serve the app, at the sockets of ``listening``; HTTPS with a ``context``. Port 0 takes a free one.

    Connections beyond ``max_connections`` are closed at once, and those that send no whole request for ``idle_s``.

    Returns the runner, whose ``cleanup()`` ends it, and the port.

    :raises PortTaken: the port is in use.
    :raises OSError: the host is not an address of this machine, or the port is not permitted.
    """
    _http_log.addFilter(_in_one_line)
    runner = _Runner(app, access_log=None, handle_signals=False, keepalive_timeout=idle_s)
    runner.max_connections = max_connections
    await runner.setup()
    try:
        for each in listening(host, port):
            await web.SockSite(runner, each, ssl_context=context).start()
    except OSError as error:
        await runner.cleanup()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                error.errno,
                f"cannot serve metrics on {host_port(host, port)}: the port is in use; choose another, or 0",
            ) from error
        raise
    return runner, int(runner.addresses[0][1])


def _in_one_line(record: logging.LogRecord) -> bool:
    """Input that is not HTTP is no failure of ours: one line without a traceback, and only some of many are logged."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError | web.RequestPayloadError):
        return True
    host = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
    limited_log.warning(type(error).__name__, host, "%s: %s", record.getMessage(), type(error).__name__)
    return False
