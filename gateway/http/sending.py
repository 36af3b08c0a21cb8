"""Bounds what slow readers of the HTTP port cost: a response has limited time, and few exist at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

MAX_AT_ONCE, MAX_PER_HOST = 64, 16
"""Responses that are made or sent."""
SEND_S = 30.0
_HEALTH = "/healthz"


def bounded(*, at_once: int = MAX_AT_ONCE, per_host: int = MAX_PER_HOST, send_s: float = SEND_S) -> Any:
    """The middleware: 503 beyond a number; the end of the connection if the client takes longer to read.

    /healthz is always served. Not bounded is what has no body in memory: plans of faults, which respond line by line.
    """
    hosts: Counter[str] = Counter()

    @web.middleware
    async def middleware(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD") or request.path == _HEALTH:
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
