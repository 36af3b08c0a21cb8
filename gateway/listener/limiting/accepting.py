"""Accepts connections, as fast as the limits permit and never so many at once that those there are have to wait."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import NamedTuple

from muster.actors.wire.limited_log import LimitedLog
from muster.gateway.listener.complaints import Cause
from muster.gateway.listener.limiting.throttling import monotonic_ms
from muster.gateway.quotas.connections import Connections, ListenerLimits, Refusal, Refused
from muster.placement.mapping.nodes import canonical_host

log = logging.getLogger(__name__)

_AT_ONCE = 4
"""Connections of one turn of the event loop. Then what has come from other clients is served."""
_OUT_OF_DESCRIPTORS_S = 1.0
_MAX_HELD = 1_000
CAUSES = {Refusal.TOO_MANY: Cause.MAX_CONNECTIONS_PER_IP, Refusal.TOO_FAST: Cause.CONNECTION_RATE}
_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Admission:
    """The place of one connection among the connections of the gateway, from when it is accepted to its end."""

    __slots__ = ("_connections", "_ip", "_listener", "_on_end")

    def __init__(self, connections: Connections, listener: str, on_end: Callable[[], None]) -> None:
        self._connections = connections
        self._listener = listener
        self._on_end: Callable[[], None] | None = on_end
        self._ip: str | None = None

    def comes_from(self, ip: str) -> Refused | None:
        """Count the connection for that address; return the refusal, if any."""
        refused = self._connections.comes_from(ip, monotonic_ms())
        if refused is None:
            self._ip = ip
        return refused

    def end(self) -> None:
        """End the admission: the connection is closed. May be repeated."""
        if self._on_end is None:
            return
        on_end, self._on_end = self._on_end, None
        self._connections.closed(self._listener)
        if self._ip is not None:
            self._connections.left(self._ip)
        on_end()


class Door(NamedTuple):
    """A listener, as what accepts its connections sees it."""

    name: str
    limits: ListenerLimits
    knows_address: bool
    """Whether a connection comes from its own address, not from a proxy's."""
    serve: Callable[[Admission], asyncio.Protocol]
    """Makes the protocol of a connection, which ends the admission."""
    refused: Callable[[str, Refused], None]
    """A connection of that address is closed."""


class Acceptor:
    """For one listening socket, which it closes, and one event loop."""

    def __init__(
        self, listening: socket.socket, door: Door, connections: Connections, room: Callable[[], None]
    ) -> None:
        """``room`` is called when a connection has ended: others may be accepted."""
        self._socket = listening
        self._door = door
        self._connections = connections
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._limited_log = LimitedLog(log)
        self._is_reading = False
        self._resuming: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        listening.setblocking(False)
        self.resume()

    @property
    def is_open(self) -> bool:
        """Whether it accepts connections, now or once there is room."""
        return self._socket.fileno() >= 0

    def resume(self) -> None:
        """There may be room for another connection."""
        if self.is_open and not self._is_reading and self._resuming is None:
            self._is_reading = True
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _pause(self, for_s: float | None = None) -> None:
        """Accept nothing for that time; None: until :meth:`resume`."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket.fileno())
        if for_s is not None:
            self._resuming = self._loop.call_later(for_s, self._resume_now)

    def _resume_now(self) -> None:
        self._resuming = None
        self.resume()

    def _accept(self) -> None:
        door, connections = self._door, self._connections
        for _ in range(_AT_ONCE):
            if connections.is_full(door.name, door.limits):
                text = "all connections that max.connections permits are open; clients of listener %s wait"
                self._limited_log.warning("full", door.name, text, door.name)
                self._pause()
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _RESOURCES:
                    raise
                self._limited_log.warning("accept", door.name, "no connection can be accepted: %s", error)
                self._pause(_OUT_OF_DESCRIPTORS_S)
                return
            delay_ms = connections.accepted(door.name, door.limits, monotonic_ms())
            self._open(accepted, canonical_host(address[0]))
            if delay_ms:
                self._pause(delay_ms / 1000)
                return

    def _open(self, accepted: socket.socket, ip: str) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        admission = Admission(self._connections, self._door.name, self._room)
        refused = admission.comes_from(ip) if self._door.knows_address else None
        if refused is not None:
            self._door.refused(ip, refused)
            admission.end()
            self._hold(accepted, refused.hold_ms)
            return
        opening = self._loop.create_task(self._serve(accepted, admission))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _serve(self, accepted: socket.socket, admission: Admission) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._door.serve(admission), accepted)
        except OSError:  # the client has gone
            admission.end()
            accepted.close()
        except BaseException:
            admission.end()
            accepted.close()
            raise

    def _hold(self, refused: socket.socket, hold_ms: int) -> None:
        if not hold_ms or len(self._held) >= _MAX_HELD:
            refused.close()
            return
        self._held[refused] = self._loop.call_later(hold_ms / 1000, self._let_go, refused)

    def _let_go(self, refused: socket.socket) -> None:
        self._held.pop(refused).cancel()
        refused.close()

    def close(self) -> None:
        """Accept no more connections."""
        if not self.is_open:
            return
        self._pause()
        if self._resuming is not None:
            self._resuming.cancel()
        self._socket.close()
        for refused in list(self._held):
            self._let_go(refused)
