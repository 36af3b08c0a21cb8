"""The listener of a gateway: it accepts clients, and closes connections that are idle for too long."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from functools import partial
from typing import Any

from muster.actors.config import Listener
from muster.actors.wire.sockets.held import Listening, listening_sockets
from muster.gateway.listener.complaints import Complaint
from muster.gateway.listener.connection import Connection
from muster.gateway.listener.gateway import ClientConnection, Gateway
from muster.gateway.listener.limiting.accepting import CAUSES, Acceptor, Admission, Door
from muster.gateway.quotas.connections import NO_LIMIT, ListenerLimits, Refused
from muster.placement.view import ClusterView

_ENDING_S, _ENDING_STEPS, _BUSY_S = 1.0, 20, 1.0
_FETCHING_MS = 5_000
"""How long after its last Fetch a connection still counts as one that fetches."""
_IDLE_SWEEP_S, _MIN_SWEEP_S = 10.0, 0.05


class GatewayServer(Gateway):
    """A gateway that clients can connect to."""

    _acceptors: tuple[Acceptor, ...] = ()

    def __init__(self, **parts: Any) -> None:
        """``parts``: the arguments of :class:`Gateway`."""
        super().__init__(**parts)
        self._token = secrets.token_hex(4)
        """Distinguishes its connections from those to other processes of the gateway."""
        self._numbers = itertools.count(1)
        self._sweeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._unused = asyncio.Event()

    async def listen(
        self, host: str, port: int, listening: Listening = listening_sockets, listener: Listener | None = None
    ) -> int:
        """Accept clients of that listener (None: the first), at the sockets of ``listening``; also several times.

        Returns the port that was bound. Raises OSError if it is taken.
        """
        loop = asyncio.get_running_loop()
        sockets = listening(host, port)
        bound = int(sockets[0].getsockname()[1])
        door = self._door(listener or self.started_with.all_listeners[0])
        self._acceptors += tuple([Acceptor(each, door, self.accepted, self._let_in) for each in sockets])
        if self._sweeper is None:
            self._sweeper = loop.create_task(self._close_idle())
            self._producer_ids.prepare()
            if self.tls:
                self._watcher = loop.create_task(self.tls.watch(lambda: self.config))
        return bound

    @property
    def serving(self) -> bool:
        """Whether clients can connect."""
        return bool(self._acceptors) and all(acceptor.is_open for acceptor in self._acceptors)

    def _door(self, listener: Listener) -> Door:
        own = ListenerLimits(listener.max_connections or NO_LIMIT, listener.max_connection_creation_rate or NO_LIMIT)

        def serve(admission: Admission) -> Connection:
            number = next(self._numbers)
            return Connection(self, f"{self.id}-{self._token}-{number}", listener, admission)

        return Door(listener.name, own, not listener.proxy_protocol, serve, partial(self._refused, listener))

    def _refused(self, listener: Listener, ip: str, refused: Refused) -> None:
        cause = CAUSES[refused.why]
        self.metrics.connection_closed_for(cause)
        text = "a connection of %s to listener %s is closed: %s"
        self.complaints.warning(cause, ip, text, ip, listener.name, refused.why.value)

    def _limit_connections(self, view: ClusterView) -> None:
        super()._limit_connections(view)
        self._let_in()

    def _let_in(self) -> None:
        for acceptor in self._acceptors:
            acceptor.resume()

    async def _close_idle(self) -> None:
        while True:
            max_idle_ms = self.config.connections_max_idle_ms
            pause_s = _IDLE_SWEEP_S if max_idle_ms < 0 else max(max_idle_ms / 4000, _MIN_SWEEP_S)
            await asyncio.sleep(min(_IDLE_SWEEP_S, pause_s))
            for connection in list(self.connections.values()):
                connection.close_if_left()
            if max_idle_ms < 0:
                continue
            limit_s = time.monotonic() - max_idle_ms / 1000
            for connection in list(self.connections.values()):
                if connection.last_active_s < limit_s and not connection.waiting and not connection.is_muted:
                    connection.close()

    def opened(self, connection: ClientConnection) -> None:
        self._unused.clear()
        super().opened(connection)

    def closed(self, connection: ClientConnection) -> None:
        super().closed(connection)
        if not self.connections:
            self._unused.set()

    async def until_unused(self, timeout_s: float) -> None:
        """Return when no client is connected, or after the timeout."""
        if self.connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._unused.wait()

    async def have_metadata_requested(self, complaint: Complaint) -> None:
        """Have the clients of all connections of now request the metadata again.

        The next Fetch of a connection gets NOT_LEADER_OR_FOLLOWER; connections without Fetch are closed. librdkafka
        sends the request on a connection that is open and was used last: if this gateway closed the connections that
        work, only those to a gateway that is silent would be left.
        """
        connections, since_ms = list(self.connections.values()), self.now_ms() - _FETCHING_MS
        for connection in connections:
            fetches = connection.attribution.fetches.values()
            connection.has_old_metadata = any(each.last_active_ms > since_ms for each in fetches)
        await self._end([each for each in connections if not each.has_old_metadata], complaint)

    async def end_connections(self, complaint: Complaint) -> None:
        """Close all connections of now, over a second or so, each when no request waits; the clients connect again.

        Whatever a client is about to request is not begun, or is answered first. A client that always has requests
        on their way is closed between two of them after ``_BUSY_S``.
        """
        await self._end(list(self.connections.values()), complaint)

    async def _end(self, connections: list[ClientConnection], complaint: Complaint) -> None:
        for at in range(0, len(connections), max(1, len(connections) // _ENDING_STEPS)):
            for connection in connections[at : at + max(1, len(connections) // _ENDING_STEPS)]:
                connection.end_when_idle()
            await asyncio.sleep(_ENDING_S / _ENDING_STEPS)
        await asyncio.sleep(_BUSY_S)
        for connection in connections:
            if connection.id in self.connections:
                connection.end_soon(complaint)

    def close_listeners(self) -> None:
        """Accept no more connections."""
        for acceptor in self._acceptors:
            acceptor.close()

    async def stop(self) -> None:
        """Accept no more connections, and close the open ones."""
        self.close_listeners()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        await super().stop()
