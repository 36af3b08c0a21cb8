"""Connections between clients and brokers, relayed byte for byte; one listening port for each broker."""

from __future__ import annotations

import asyncio
import errno
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from muster.actors.wire.kafka.framing import Framer, FrameTooLarge, framed
from muster.actors.wire.limited_log import LimitedLog
from muster.gateway.capture.advertised import Address
from muster.gateway.capture.conversation import Conversation
from muster.gateway.capture.recorder import Recorder
from muster.placement.host_port import host_port

log = logging.getLogger(__name__)

_CONNECT_S = 10.0
_READ_BYTES = 1 << 18
_LARGEST_REQUEST_BYTES = 1 << 28
"""More than brokers accept, less than the start of a TLS record reads as."""
_LARGEST_RESPONSE_BYTES = (1 << 31) - 1
_PORTS_TRIED = 100
_ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104 - compared


class CaptureProxy:
    """Use it on one event loop: ``listen``, serve, ``stop``."""

    def __init__(self, host: str, port: int, recorder: Recorder) -> None:
        """``port``: for the first broker; those of the others count up. 0: free ports."""
        self._host = host
        self._next_port = port
        self._recorder = recorder
        self._limited_log = LimitedLog(log)
        self._ports: dict[Address, int] = {}
        self._servers: list[asyncio.Server] = []
        self._listening = asyncio.Lock()
        self._links: set[asyncio.Future[None]] = set()

    async def listen(self, broker: Address) -> Address:
        """Where clients reach that broker through the proxy from now on.

        Raises OSError if it cannot listen on a port.
        """
        async with self._listening:
            if broker not in self._ports:
                server = await self._start_server(broker)
                self._servers.append(server)
                self._ports[broker] = server.sockets[0].getsockname()[1]
        return self._host, self._ports[broker]

    async def stop(self) -> None:
        """Close everything."""
        for server in self._servers:
            server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        self._limited_log.flush()

    async def _start_server(self, broker: Address) -> asyncio.Server:
        tries = _PORTS_TRIED if self._ports and self._next_port else 1
        for _ in range(tries):
            port = self._next_port
            self._next_port += bool(port)
            try:
                return await asyncio.start_server(partial(self._accept, broker), self._host or _ANY_HOST[1], port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or tries == 1:
                    raise
        raise OSError(errno.EADDRINUSE, f"{_PORTS_TRIED} ports before {self._next_port} are taken")

    async def _accept(self, broker: Address, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            await self._relay(broker, reader, writer)
        except asyncio.CancelledError:  # by stop
            pass
        except Exception as error:
            address = host_port(*broker)
            self._limited_log.exception(error, "failed", address, "a connection to %s failed", address)
        finally:
            self._links.discard(task)
            writer.close()

    async def _relay(self, broker: Address, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            connecting = asyncio.open_connection(*broker)
            broker_reader, broker_writer = await asyncio.wait_for(connecting, _CONNECT_S)
        except OSError as error:  # TimeoutError is one
            where = host_port(*broker)
            self._limited_log.warning("unreachable", where, "%s cannot be reached: %s", where, error or "no answer")
            return
        own_host = self._host if self._host not in _ANY_HOST else writer.get_extra_info("sockname")[0]
        link = _Link(Conversation(self._recorder, partial(self._own_addresses, own_host)), self._limited_log)
        pumps = [
            asyncio.create_task(link.requests(reader, broker_writer)),
            asyncio.create_task(link.responses(broker_reader, writer)),
        ]
        try:
            await asyncio.gather(*pumps)
        except OSError as error:  # one side is closed, so close the other
            log.debug("a connection to %s ended: %s", host_port(*broker), error)
        finally:
            for pump in pumps:
                pump.cancel()
            broker_writer.close()

    async def _own_addresses(self, own_host: str, brokers: Iterable[Address]) -> dict[Address, Address]:
        ours: dict[Address, Address] = {}
        for broker in sorted(brokers):
            try:
                _, port = await self.listen(broker)
            except OSError as error:
                where = host_port(*broker)
                self._limited_log.warning(
                    "no port", where, "clients go to %s itself, no port for it: %s", where, error.strerror
                )
            else:
                ours[broker] = own_host, port
        return ours


class _Link:
    """One connection. If the bytes are not Kafka's, they are relayed unexamined."""

    def __init__(self, conversation: Conversation, limited_log: LimitedLog) -> None:
        self._conversation = conversation
        self._limited_log = limited_log
        self._is_kafka = True

    async def requests(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Relay until the client has sent everything. Raises OSError."""
        framer = Framer(_LARGEST_REQUEST_BYTES)
        while data := await reader.read(_READ_BYTES):
            if self._is_kafka:
                try:
                    for frame in framer.feed(data):
                        self._conversation.request(frame)
                except FrameTooLarge as error:
                    self._stop_looking(error)
            writer.write(data)
            await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    async def responses(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Relay until the broker has closed; then close the client's connection. Raises OSError."""
        framer = Framer(_LARGEST_RESPONSE_BYTES)
        while data := await reader.read(_READ_BYTES):
            if self._is_kafka:
                try:
                    for frame in framer.feed(data):
                        writer.write(framed(await self._conversation.response(frame)))
                except FrameTooLarge as error:
                    self._stop_looking(error)
                data = b""  # the framer has the bytes that were not written
            if not self._is_kafka:
                writer.write(framer.pending + data)
                framer = Framer(_LARGEST_RESPONSE_BYTES)
            await writer.drain()
        writer.write(framer.pending)
        writer.close()

    def _stop_looking(self, error: FrameTooLarge) -> None:
        self._is_kafka = False
        text = "a connection is relayed and not recorded, its bytes are not Kafka's in plain text (TLS?): %s"
        self._limited_log.warning("not Kafka", "", text, error)
