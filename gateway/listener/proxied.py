"""The room before a connection behind a load balancer: the header with the client's address comes first.

It has the transport until the header is complete; from then on what comes goes to the connection itself, or to its TLS.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from muster.actors.config import Listener
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.proxy_protocol import BadHeader, Source, read_header


class Proxied(Protocol):
    """The connection behind the room (:class:`muster.gateway.listener.connection.Connection`)."""

    listener: Listener
    host: str
    is_held: bool
    last_active_s: float

    def comes_from(self, source: Source | None) -> None:
        """Note the client's address; None if it is the transport's own. The connection may be held from then on."""

    def close(self, complaint: Complaint | None = None) -> None: ...


class ProxyHeader(asyncio.Protocol):
    """Protocol of a transport that begins with a header."""

    def __init__(self, transport: asyncio.Transport, connection: Proxied, behind: asyncio.Protocol) -> None:
        """``behind`` gets the transport, and what came after the header."""
        self._transport = transport
        self._connection = connection
        self._behind = behind
        self._data = b""
        """The part of the header that has come."""

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        connection.last_active_s = time.monotonic()
        if connection.is_held:
            return
        try:
            if not connection.listener.trusts(connection.host):
                raise BadHeader(f"{connection.host} is none of proxy.protocol.trusted.hosts")
            self._data += data
            header = read_header(self._data)
        except BadHeader as error:
            self._data = b""
            connection.close(Complaint(Cause.PROXY_HEADER, f"listener {connection.listener.name}: {error}"))
            return
        if header is None:
            return
        rest, self._data = self._data[header.size_bytes :], b""
        self._transport.set_protocol(self._behind)
        connection.comes_from(header.source)
        if rest and not connection.is_held:
            self._behind.data_received(rest)

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._behind.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._behind.connection_lost(exc)
