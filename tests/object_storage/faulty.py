"""A proxy before object storage that loses, delays and refuses requests and responses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from aiohttp import ClientSession, web

_HOP = ("connection", "keep-alive", "transfer-encoding")
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Fault(Enum):
    SLOW_DOWN = "503 without any effect"
    SERVER_ERROR = "500 without any effect"
    CONFLICT = "409 without any effect: a conditional write that met another"
    LOST_REQUEST = "the connection breaks before the service gets the request"
    LOST_RESPONSE = "the connection breaks after the request took effect"
    CUT = "the connection breaks in the middle of the response's body"
    HELD = "the service gets the request when it is let go"


_DRAWN = [each for each in Fault if each is not Fault.HELD]
_FAULTY_SHARE = 0.02
_MEAN_DELAY_S = 0.02


@dataclass(slots=True)
class _Planned:
    fault: Fault
    method: str
    part: str


@dataclass(slots=True)
class Proxy:
    """``url`` is the endpoint to use instead of the service's."""

    url: str = ""
    seen: list[str] = field(default_factory=list)
    """Method and path of each request."""
    met: list[Fault] = field(default_factory=list)
    """Faults that were met."""
    delay_s: float = 0.0
    random: Random | None = None
    """Draws a fault of one request in fifty, and a further delay of each."""
    _planned: list[_Planned] = field(default_factory=list)
    _has_met: threading.Event = field(default_factory=threading.Event)
    _go: threading.Event = field(default_factory=threading.Event)
    _arrived: threading.Event = field(default_factory=threading.Event)

    def plan(self, *faults: Fault, method: str = "PUT", part: str = "") -> None:
        """Let the next requests of that method, whose path has that part, meet these faults, one each."""
        self._planned += [_Planned(fault, method, part) for fault in faults]

    def await_fault(self, within_s: float = 30) -> None:
        """Wait until a request has met a planned fault."""
        assert self._has_met.wait(within_s), "no request met a fault"

    def let_go(self, within_s: float = 30) -> None:
        """Let the held request go on, and wait until the service has handled it."""
        self._go.set()
        assert self._arrived.wait(within_s), "no request was held"

    def _fault(self, method: str, path: str) -> Fault | None:
        for planned in self._planned:
            if planned.method == method and planned.part in path:
                self._planned.remove(planned)
                self.met.append(planned.fault)
                self._has_met.set()
                return planned.fault
        if self.random is not None and self.random.random() < _FAULTY_SHARE:
            self.met.append(self.random.choice(_DRAWN))
            return self.met[-1]
        return None

    def _delay_s(self) -> float:
        return self.delay_s + (self.random.expovariate(1 / _MEAN_DELAY_S) if self.random is not None else 0.0)


@contextmanager
def faulty(endpoint: str, *, delay_s: float = 0.0) -> Iterator[Proxy]:
    """Run a proxy before the endpoint, in a thread. ``delay_s``: how much later each response comes."""
    proxy = Proxy(delay_s=delay_s)
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with ClientSession(auto_decompress=False) as session:

            async def handle(request: web.Request) -> web.StreamResponse:
                return await _handle(proxy, session, endpoint, request)

            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            ready.set()
            await stop.wait()
            await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="faulty-proxy")
    thread.start()
    assert ready.wait(30)
    try:
        yield proxy
    finally:
        proxy._go.set()
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _handle(proxy: Proxy, session: ClientSession, endpoint: str, request: web.Request) -> web.StreamResponse:
    proxy.seen.append(f"{request.method} {request.path}")
    fault = proxy._fault(request.method, request.raw_path)
    body = await request.read()
    match fault:
        case Fault.SLOW_DOWN:
            return web.Response(status=503, body=_SLOW_DOWN)
        case Fault.SERVER_ERROR:
            return web.Response(status=500)
        case Fault.CONFLICT:
            return web.Response(status=409)
        case Fault.LOST_REQUEST:
            return _break(request)
        case Fault.HELD:
            await asyncio.to_thread(proxy._go.wait)
    await asyncio.sleep(proxy._delay_s())
    headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
    async with session.request(
        request.method, f"{endpoint}{request.raw_path}", headers=headers, data=body or None, allow_redirects=False
    ) as found:
        content = await found.read()
    if fault is Fault.HELD:
        proxy._arrived.set()
    if fault is Fault.LOST_RESPONSE:
        return _break(request)
    response = web.StreamResponse(status=found.status)
    for name, value in found.headers.items():
        if name.lower() not in (*_HOP, "content-length"):
            response.headers.add(name, value)
    response.content_length = int(found.headers.get("Content-Length", len(content)))
    await response.prepare(request)
    if fault is Fault.CUT:
        await response.write(content[: len(content) // 2])
        return _break(request)
    if request.method != "HEAD":
        await response.write(content)
    await response.write_eof()
    return response


def _break(request: web.Request) -> web.Response:
    """Close the connection without another word."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
