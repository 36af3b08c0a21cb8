"""A lean client: whole frames over many connections in one event loop, so that the cores remain for Muster.

Requests of one connection are answered in order (Kafka's protocol), so a connection is a queue of waiting callers.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import Framer, framed

_LARGEST_BYTES = 1 << 30
_CLIENT_ID = "bench"
ApiVersion = tuple[int, int]
"""API key and version."""


class Lost(ConnectionError):
    """Connection closed by the gateway, which it must not do."""


class Connection(asyncio.Protocol):
    """Open with :func:`connect` or :func:`open_connection`. ``client_id`` is sent with its requests."""

    def __init__(self, client_id: str | None = _CLIENT_ID) -> None:
        self.client_id = client_id
        self._framer = Framer(_LARGEST_BYTES)
        self._waiting: deque[Callable[[bytes], object]] = deque()
        self._transport: asyncio.Transport | None = None
        self._failed: list[asyncio.Future[bytes]] = []
        self._closing = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def local_address(self) -> tuple[str, int]:
        """Address of the client as the gateway sees it."""
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")[:2]
        return str(host), int(port)

    def data_received(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._waiting.popleft()(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = not self._closing
        for future in self._failed:
            if not future.done():
                future.set_exception(Lost("a gateway closed the connection"))

    def send(self, request: bytes, answered: Callable[[bytes], object]) -> None:
        """Send a framed request; ``answered`` gets the response frame. Lost."""
        if self.is_lost or self._closing or self._transport is None:
            raise Lost("a gateway closed the connection")
        self._waiting.append(answered)
        self._transport.write(request)

    async def call(self, api: ApiVersion, body: dict[str, Any]) -> Any:
        """Send a request, and return the decoded response. Raises Lost."""
        frame = await self.call_raw(request(api, body, self.client_id))
        return codec.decode_response(*api, frame)[1]

    async def call_raw(self, request: bytes) -> bytes:
        """Send a framed request and wait for the response frame. Lost."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def answered(frame: bytes) -> None:
            if not future.done():
                future.set_result(frame)

        self.send(request, answered)
        self._failed.append(future)
        try:
            return await future
        finally:
            self._failed.remove(future)

    def close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()


def request(api: ApiVersion, body: dict[str, Any], client_id: str | None = _CLIENT_ID) -> bytes:
    """Return a framed request."""
    return framed(codec.encode_request(*api, 1, client_id, body))


async def open_connection(host: str, port: int, *, client_id: str | None, local_host: str) -> Connection:
    """Open a connection from that local address; on Linux any of 127.0.0.0/8 works. Raises OSError."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(client_id), host, port, local_addr=(local_host, 0))
    return connection


async def connect(bootstrap: Sequence[str], count: int) -> list[Connection]:
    """Open that many connections, to the gateways in turn."""
    loop = asyncio.get_running_loop()
    connections = []
    for number in range(count):
        host, _, port = bootstrap[number % len(bootstrap)].rpartition(":")
        _, connection = await loop.create_connection(Connection, host, int(port))
        connections.append(connection)
    return connections


class Errors(Counter[str]):
    """Counts of error responses, by API and Kafka's name of the error."""

    def note(self, what: str, code: int) -> None:
        if code:
            self[f"{what} {codec.ErrorCode(code).name}"] += 1
