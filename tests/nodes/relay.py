"""A way from clients to one gateway that can be cut without a sign, as a network is: nothing is closed, or refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")
_CHUNK_BYTES = 1 << 16
_WAIT_S = 30


class Relay:
    """``with Relay(host, port, to) as relay``: listens at ``host:port`` and relays to ``to:port``, until :meth:`cut`.

    After that, connections are accepted, and carry nothing in either direction. Without ``to``, connections are closed
    at once until :meth:`redirect`.
    """

    def __init__(self, host: str, port: int, to: str | None) -> None:
        self._host, self._port = host, port
        self._target = None if to is None else (to, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._flows: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._is_cut = False

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._accept, self._host, self._port))
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()

    def cut(self) -> None:
        """Nothing passes from now on."""

        async def cut() -> None:
            self._is_cut = True
            for flow in self._flows:
                flow.cancel()

        self._do(cut())

    def redirect(self, host: str, port: int) -> None:
        """Relay connections there that are opened from now on."""
        self._target = (host, port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self._is_cut:
            return
        if self._target is None:
            writer.close()
            return
        there, back = await asyncio.open_connection(*self._target)
        self._writers.append(back)
        for source, target in ((reader, back), (there, writer)):
            flow = self._loop.create_task(self._flow(source, target))
            self._flows.add(flow)
            flow.add_done_callback(self._flows.discard)

    async def _flow(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(_CHUNK_BYTES):
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        if not self._is_cut:
            target.close()

    async def _stop(self) -> None:
        self._server.close()
        for flow in list(self._flows):
            flow.cancel()
        for writer in self._writers:
            writer.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)
