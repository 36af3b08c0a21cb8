"""``GET /v1/events``: what happens in the cluster, as server-sent events (WHATWG HTML, section 9.2), from any gateway.

``event: rebalance`` has a rebalance that has ended, as in ``GET /v1/rebalances``; ``event: fault`` is ``{"at_ms",
"what": "injected"|"cleared", "fault"}``, with the fault as in ``GET /v1/faults``; ``event: actor`` is ``{"at_ms",
"name", "state": "alive"|"leaving"|"disconnected"|"down", "node_id"}``: an actor serves from now on, possibly in another
process, is about to stop, has lost its connection to this gateway, as a process that ends does at once, or serves no
more. Faults and actors are for who may DESCRIBE the cluster. ``event: lost`` is ``{"count",
"coordinator"}``: rebalances that cannot be sent any more, since this client was too slow (``coordinator`` is null), or
since the coordinator that had them in memory is no more (``count`` is null: it is not known whether there were any).

``group``, ``cause`` and ``ending``, each also several times, select rebalances; ``kind`` selects kinds of events:
all or, with one of the others, rebalances alone. A comment line comes every 15 s, and with it the id of the place.

The id of a rebalance names offsets partition, leader epoch and count of its entry, and how far all other journals were
read. A client that sends it as the header ``Last-Event-ID``, or as ``last_event_id``, to any gateway gets the
rebalances since then that are in the coordinators' memory (the last 100 of a group, 4 MiB in all), each once, except
that those of a coordinator without earlier ones may be repeated. What a coordinator that died had not sent is lost; it
is in ``GET /v1/groups/history``. Faults and actors are not sent again. A stream ends after an hour: the client comes
again, and its credentials are checked again.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from muster.actors.group.events import Cause
from muster.actors.tables.rebalance_entry import Ending
from muster.gateway.http.callers import Caller, current_caller
from muster.gateway.http.feed import Event, EventFeed, Kind, Position
from muster.gateway.http.groups import Failed
from muster.gateway.listener.gateway import Gateway
from muster.placement.mapping.nodes import canonical_host

EVENTS = "/v1/events"
LAST_EVENT_ID = "Last-Event-ID"
_MAX_AT_ONCE, _MAX_PER_HOST = 64, 16
_MAX_EVENTS, _MAX_BYTES = 1_000, 1 << 20
"""Limits of what waits for one client."""
_HEARTBEAT_S, _LOOK_S = 15.0, 1.0
_SEND_S = 30.0
_MAX_S = 3600.0
_POSITION_S = 3.0
_RETRY_AFTER_S = 5
_FILTERS = {
    "group": None,
    "cause": frozenset(cause.value for cause in Cause),
    "ending": frozenset(Ending) - {Ending.RUNNING},
}
"""Parameters that select rebalances, and the values that exist."""
_KINDS = frozenset(Kind) - {Kind.LOST}


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""
    streams = Streams(gateway)
    app.router.add_get(EVENTS, streams.serve, allow_head=False)
    app.on_shutdown.append(streams.shut)


@dataclass(frozen=True, slots=True)
class Filter:
    """Selection of events. No value of a parameter selects all."""

    kinds: frozenset[str]
    values: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, request: web.Request) -> Filter:
        """Return what the query selects. Raises Failed (400)."""
        values = {name: _values(request, name, known) for name, known in _FILTERS.items() if name in request.query}
        default = {Kind.REBALANCE} if values else _KINDS
        return cls(_values(request, "kind", _KINDS) or frozenset(default), values)

    def selects(self, event: Event) -> bool:
        if event.kind is Kind.LOST:
            return Kind.REBALANCE in self.kinds
        if event.kind not in self.kinds:
            return False
        return event.kind is not Kind.REBALANCE or all(
            event.values[name] in wanted for name, wanted in self.values.items()
        )


def _values(request: web.Request, name: str, known: frozenset[str] | None) -> frozenset[str]:
    found = frozenset(request.query.getall(name, ()))
    if known is not None and (unknown := sorted(found - known)):
        raise Failed(400, f"{name} {unknown[0]!r} does not exist; there are: {', '.join(sorted(known))}")
    return found


class Listener:
    """Events that wait for one client: those that it wants and may see, as they are sent."""

    def __init__(self, gateway: Gateway, caller: Caller, wanted: Filter) -> None:
        self._gateway = gateway
        self._caller = caller
        self._filter = wanted
        self._partitions = {gateway.partition_of(group) for group in wanted.values.get("group", ())}
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        self._changed = asyncio.Event()
        self.is_open = False
        """Whether events are kept; those before are not for this client."""
        self.has_ended = False

    def put(self, event: Event) -> None:
        """Keep the event until it is sent. If there are too many, it and those until the client has read are lost."""
        if not self.is_open or (sent := self.as_sent(event)) is None:
            return
        is_full = len(self._waiting) >= _MAX_EVENTS or (self._waiting and self._bytes + len(sent) > _MAX_BYTES)
        if self._lost or is_full:
            self._lost += 1
        else:
            self._waiting.append(sent)
            self._bytes += len(sent)
        self._changed.set()

    def as_sent(self, event: Event) -> bytes | None:
        """Return the event as the client may see it now; None if it may or wants not."""
        if not self._filter.selects(event):
            return None
        caller = replace(self._caller, authorizer=self._gateway.authorizer)
        if event.kind is Kind.REBALANCE:
            if not caller.sees_group(event.values["group"]):
                return None
            if caller.sees_all:
                return _block(event.kind, event.text, event.id)
            pauses = [pause for pause in event.values["partitions"] if caller.sees_topic(pause["topic"])]
            return _block(event.kind, json.dumps({**event.values, "partitions": pauses}), event.id)
        if event.kind is not Kind.LOST:
            return _block(event.kind, event.text) if caller.sees_cluster() else None
        if self._partitions and event.partition not in self._partitions:
            return None
        if caller.sees_cluster():
            return _block(event.kind, event.text)
        return _block(event.kind, json.dumps({**event.values, "count": None}))

    async def next(self, timeout_s: float) -> bytes:
        """Return what is sent next; nothing after the timeout, or if the stream ends."""
        if not self._waiting and not self._lost and not self.has_ended:
            self._changed.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                return b""
        if self._waiting:
            sent = self._waiting.popleft()
            self._bytes -= len(sent)
            return sent
        if self._lost:
            count, self._lost = self._lost, 0
            return _block(Kind.LOST, json.dumps({"count": count, "coordinator": None}))
        return b""

    def end(self) -> None:
        """Have the stream end."""
        self.has_ended = True
        self._changed.set()


class Streams:
    """The streams of one gateway."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        at_once: int = _MAX_AT_ONCE,
        per_host: int = _MAX_PER_HOST,
        send_s: float = _SEND_S,
        max_s: float = _MAX_S,
    ) -> None:
        self._gateway = gateway
        self._feed = EventFeed(gateway)
        self._at_once, self._per_host, self._send_s, self._max_s = at_once, per_host, send_s, max_s
        self._hosts: Counter[str] = Counter()
        self._listeners: set[Listener] = set()
        self._resuming: set[asyncio.Task[Any]] = set()
        self._sending: set[asyncio.Task[Any]] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nobody listens, and nothing is queried."""
        return self._feed.is_idle

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Send events until the client or the gateway goes, or an hour is over."""
        try:
            listener = Listener(self._gateway, current_caller(), Filter.of(request))
            with self._counted(request):
                return await self._serve(request, listener)
        except Failed as failed:
            headers = {"Retry-After": str(_RETRY_AFTER_S)} if failed.status == 503 else None
            return web.json_response({"error": str(failed)}, status=failed.status, headers=headers)

    async def shut(self, _app: web.Application) -> None:
        """End all streams with the gateway; those that wait for a client or a coordinator, too."""
        for listener in self._listeners:
            listener.end()
        for task in self._sending | self._resuming:
            task.cancel()

    @contextmanager
    def _counted(self, request: web.Request) -> Iterator[None]:
        """Count the stream. Raises Failed (503) if there are too many."""
        host = canonical_host(request.remote or "")
        if self._hosts.total() >= self._at_once or self._hosts[host] >= self._per_host:
            raise Failed(503, "too many streams of events are open at this gateway; try another one, or later")
        self._hosts[host] += 1
        try:
            yield
        finally:
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]

    async def _serve(self, request: web.Request, listener: Listener) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        self._listeners.add(listener)
        self._feed.join(listener.put)
        try:
            await response.prepare(request)
            async with aclosing(self._blocks(request, listener)) as blocks:
                async for block in blocks:
                    await self._send(request, response, block)
        except ConnectionError:
            pass
        finally:
            self._feed.leave(listener.put)
            self._listeners.discard(listener)
        return response

    async def _blocks(self, request: web.Request, listener: Listener) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end_s, complete_s = loop.time() + self._max_s, loop.time() + _POSITION_S
        with _in(self._resuming):
            async for block in self._missed(request, listener):
                yield block
        place_s = 0.0
        while not listener.has_ended and loop.time() < end_s:
            if block := await listener.next(_LOOK_S):
                yield block
            elif request.transport is None or request.transport.is_closing():
                return
            elif loop.time() >= place_s and (self._feed.is_complete or loop.time() >= complete_s):
                place_s = loop.time() + _HEARTBEAT_S
                yield b": " + _place(self._feed.position)

    async def _missed(self, request: web.Request, listener: Listener) -> AsyncGenerator[bytes, None]:
        """Yield what the client has missed since its last stream, and open the listener for what comes next."""
        text = request.headers.get(LAST_EVENT_ID) or request.query.get("last_event_id", "")
        if not text:
            listener.is_open = True
            return
        await self._feed.has_position(_POSITION_S)
        end, listener.is_open = self._feed.position, True
        try:
            last = Position.of(text)
        except ValueError:
            yield _block(Kind.LOST, json.dumps({"count": None, "coordinator": None}))
            return
        async with aclosing(self._feed.between(last, end)) as missed:
            async for event in missed:
                if (sent := listener.as_sent(event)) is not None:
                    yield sent

    async def _send(self, request: web.Request, response: web.StreamResponse, block: bytes) -> None:
        try:
            with _in(self._sending):
                async with asyncio.timeout(self._send_s):
                    await response.write(block)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError from None


@contextmanager
def _in(tasks: set[asyncio.Task[Any]]) -> Iterator[None]:
    """Have the current task among these."""
    task = asyncio.current_task()
    assert task is not None
    tasks.add(task)
    try:
        yield
    finally:
        tasks.discard(task)


def _block(kind: Kind, text: str, place: str = "") -> bytes:
    name = f"id: {place}\n" if place else ""
    return f"{name}event: {kind.value}\ndata: {text}\n\n".encode()


def _place(position: Position) -> bytes:
    """Return a comment with the id of the place: a client that gets no event knows where to resume, too."""
    place = position.id()
    return f"heartbeat\n{f'id: {place}' if place else ''}\n\n".encode()
