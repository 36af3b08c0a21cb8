"""Clients that request a large response and do not read it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from muster.gateway.http.server import bounded, start_http

_LARGE = 32 << 20
"""More than the buffers of a socket take."""


@asynccontextmanager
async def served(*, send_s: float, per_host: int = 2, at_once: int = 9) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Yield an app with a large response; its port, and whether a response has ended."""
    ended = asyncio.Event()

    @web.middleware
    async def observed(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        finally:
            ended.set()

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=bytes(_LARGE))

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="serving\n")

    app = web.Application(
        middlewares=(
            observed,
            bounded(send_s=send_s, per_host=per_host, at_once=at_once),
        )
    )
    app.router.add_get("/metrics", large)
    app.router.add_get("/healthz", healthz)
    runner, port = await start_http(app, "127.0.0.1", 0)
    try:
        yield port, ended
    finally:
        await runner.cleanup()


def request(port: int, path: str, source: str = "127.0.0.1") -> socket.socket:
    """Return a connection on which the response has begun to come."""
    client = socket.create_connection(("127.0.0.1", port), 30, (source, 0))
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
    return client


def head(client: socket.socket) -> bytes:
    return client.recv(12)


def length(client: socket.socket) -> int:
    """Bytes until the end of the connection."""
    size = 0
    try:
        while part := client.recv(1 << 20):
            size += len(part)
    except ConnectionError:
        pass
    return size


def test_a_client_that_does_not_read_loses_its_connection() -> None:
    async def scenario() -> None:
        async with served(send_s=0.2) as (port, ended):
            with await asyncio.to_thread(request, port, "/metrics") as client:
                assert await asyncio.to_thread(head, client) == b"HTTP/1.1 200"
                await asyncio.wait_for(ended.wait(), 30)
                assert 0 < await asyncio.to_thread(length, client) < _LARGE

    asyncio.run(scenario())


@pytest.mark.parametrize(("per_host", "at_once"), [(2, 9), (9, 2)])
def test_few_responses_exist_at_once(per_host: int, at_once: int) -> None:
    """/healthz is served all the same, and so is the next one once a response is read."""

    async def scenario() -> None:
        async with served(send_s=30, per_host=per_host, at_once=at_once) as (port, _):
            first, second = [await asyncio.to_thread(request, port, "/metrics") for _ in range(2)]
            for client in (first, second):
                assert await asyncio.to_thread(head, client) == b"HTTP/1.1 200"
            for path, source, status in (
                ("/metrics", "127.0.0.1", b"503"),
                ("/metrics", "127.0.0.2", b"503" if at_once == 2 else b"200"),
                ("/healthz", "127.0.0.1", b"200"),
            ):
                with await asyncio.to_thread(request, port, path, source) as client:
                    assert await asyncio.to_thread(head, client) == b"HTTP/1.1 " + status
            with first, second:
                assert await asyncio.to_thread(length, first) > _LARGE
                with await asyncio.to_thread(request, port, "/metrics") as client:
                    assert await asyncio.to_thread(head, client) == b"HTTP/1.1 200"

    asyncio.run(scenario())
