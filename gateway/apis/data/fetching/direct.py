"""Serves a fetch without a task, from actors that are connected.

Each actor waits by itself. The first actor with records or an error ends the wait; the response takes what the others
have by then. That is exact while ``min_bytes`` is at most 1, as consumers have it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.actors.wire.internal.fetch import FetchedPartition
from muster.gateway.apis.data.fetching.fetch import Fetch
from muster.gateway.apis.data.fetching.reading import is_small, read_now, shorten_now
from muster.gateway.apis.data.fetching.sending import is_replaced, request_of, send
from muster.gateway.apis.data.fetching.tasks import read_and_reply, serve
from muster.gateway.apis.data.fetching.wanted import Wanted
from muster.gateway.apis.partitions import channel_to
from muster.gateway.listener.api import Cancel, Reply, Responder
from muster.gateway.listener.forward import ActorKey


def serve_directly(fetch: Fetch, responder: Responder) -> Cancel | None:
    """Serve the fetch; return a function that gives it up, None if serving takes a task."""
    parts = fetch.plan.parts
    if not parts or (len(parts) > 1 and fetch.min_bytes > 1):
        return None
    channels = [channel_to(fetch.call.gateway, part.owner) for part in parts]
    there = [channel for channel in channels if channel is not None]
    if len(there) < len(parts):
        return None
    direct = DirectFetch(fetch, there, responder)
    direct.start()
    return direct.cancel


class DirectFetch:
    """Calls the responder once, unless it is cancelled."""

    __slots__ = ("_channels", "_fetch", "_is_cancelled", "_is_hurried", "_responder", "_task", "_waiting")

    def __init__(self, fetch: Fetch, channels: Sequence[Channel], responder: Responder) -> None:
        self._fetch = fetch
        self._channels = channels
        self._responder = responder
        self._waiting: dict[int, Cancel] = {}
        """By the number of the part."""
        self._is_hurried = self._is_cancelled = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        fetch = self._fetch
        fetch.begin()
        max_wait_ms = 0 if fetch.plan.failed else fetch.left_ms
        for number in range(len(self._channels)):
            self._send(number, max_wait_ms)

    def _send(self, number: int, max_wait_ms: int) -> None:
        fetch, channel, part = self._fetch, self._channels[number], self._fetch.plan.parts[number]
        request = request_of(fetch, part, by_place=channel.is_local, max_wait_ms=max_wait_ms, min_bytes=fetch.min_bytes)
        self._waiting[number] = send(channel, part, request, partial(self._fetched, number))

    def _fetched(self, number: int, found: list[FetchedPartition] | ChannelLost) -> None:
        try:
            del self._waiting[number]
            part = self._fetch.plan.parts[number]
            if is_replaced(found):
                self._serve_by_task(part.owner, self._channels[number])
                return
            part.take(found)
            if not self._waiting:
                self._finish()
            elif not self._is_hurried and part.has_ended:
                self._hurry()
        except Exception as error:
            self._fail(error)

    def _hurry(self) -> None:
        """Have the others respond at once."""
        self._is_hurried = True
        for number, cancel in list(self._waiting.items()):
            cancel()
            self._send(number, 0)

    def _finish(self) -> None:
        fetch = self._fetch
        items = fetch.plan.touched
        if items and len(self._channels) > 1:
            fetch.cut()
        if is_small(items):
            self._read(items)
        else:
            fetch.call.gateway.turns.now_or_queue(self._in_turn)

    def _in_turn(self) -> float:
        """Read what is large."""
        if not self._is_cancelled:
            try:
                gateway, items = self._fetch.call.gateway, self._fetch.plan.touched
                shorten_now(items, gateway.reading_whole, is_alone=not gateway.turns)
                self._read(items)
            except Exception as error:
                self._fail(error)
        return 0.0

    def _read(self, items: Sequence[Wanted]) -> None:
        if read_now(items):
            self._responder.reply(self._fetch.reply())
        else:
            self._run(read_and_reply(self._fetch))

    def _serve_by_task(self, owner: ActorKey, replaced: Channel) -> None:
        self._cancel_waiting()
        self._run(serve(self._fetch, {owner: replaced}))

    def _run(self, work: Coroutine[Any, Any, Reply]) -> None:
        async def run() -> None:
            try:
                self._responder.reply(await work)
            except Exception as error:
                self._responder.fail(error)

        self._task = asyncio.get_running_loop().create_task(run())

    def _fail(self, error: Exception) -> None:
        self._cancel_waiting()
        self._responder.fail(error)

    def _cancel_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for cancel in waiting.values():
            cancel()

    def cancel(self) -> None:
        self._is_cancelled = True
        self._cancel_waiting()
        if self._task is not None:
            self._task.cancel()
