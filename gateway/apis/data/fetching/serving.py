"""Serves a fetch: sends its parts to their actors, and reads the records that these have named places of.

Where all actors are connected, that takes no task (:class:`DirectFetch`): each actor waits by itself. The first actor
with records or an error ends the wait; the response takes what the others have by then. That is exact while
``min_bytes`` is at most 1, as consumers have it.

A task (:func:`serve`) serves a fetch that has to wait for more than its actors: for one that is replaced, for the disk,
for a sum of bytes. What cannot be read in time gets an error that brokers send, too: Java's consumer throws an
IllegalStateException at any other, REQUEST_TIMED_OUT among them (FetchCollector.handleInitializeErrors).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from muster.actors.wire.internal.channel import Channel, ChannelLost, OnFetched
from muster.actors.wire.internal.fetch import FetchedPartition, FetchRequest
from muster.gateway.apis.data.fetching.fetch import Fetch
from muster.gateway.apis.data.fetching.plan import REPLACED, Part, Wanted
from muster.gateway.apis.data.fetching.segment_files import SMALL_BYTES, Unread, read, read_now, shorten_now
from muster.gateway.apis.partitions import channel_to, owner_of
from muster.gateway.listener.api import Cancel, Reply, Responder
from muster.gateway.listener.forward import ActorKey

GRACE_S = 10.0
MAX_SENT_BYTES = 1 << 20
"""Limit of records that an actor sends, in memory until the client takes them; one batch, if it is larger."""
ATTEMPTS = 3
"""A role passes twice within seconds: from a killed actor to a standby, and back."""


def request_of(fetch: Fetch, part: Part, *, by_place: bool, max_wait_ms: int, min_bytes: int) -> FetchRequest:
    """Return the request to the actor, which responds once it has ``min_bytes``, or the time has passed."""
    isolation_level = fetch.request.isolation_level
    max_bytes = fetch.max_bytes if by_place else min(fetch.max_bytes, MAX_SENT_BYTES)
    return FetchRequest(by_place, max_wait_ms, min_bytes, max_bytes, (), isolation_level, part.packed)


def send(channel: Channel, part: Part, request: FetchRequest, on_fetched: OnFetched) -> Cancel:
    """Send the request to the part's actor; return a function that gives it up. Raises NotSent."""
    timeout_s = request.max_wait_ms / 1000 + GRACE_S
    return partial(channel.cancel, channel.fetch(request, on_fetched, timeout_s=timeout_s, last=part.last))


def is_replaced(found: list[FetchedPartition] | ChannelLost) -> bool:
    """Whether the actor is lost, or about to be replaced."""
    if isinstance(found, ChannelLost):
        return True
    return (not found or found[0].error_code is REPLACED) and all(part.error_code is REPLACED for part in found)


async def serve(fetch: Fetch, replaced: Mapping[ActorKey, Channel]) -> Reply:
    """Serve the fetch. ``replaced``: channels over which an actor has refused it, since it is being replaced."""
    await _find(fetch, replaced)
    fetch.cut()
    items, turns = fetch.plan.items, fetch.call.gateway.turns
    if Unread.of(items).size_bytes > SMALL_BYTES:
        await turns.turn()
        shorten_now(items, fetch.call.gateway.reading_whole, is_alone=not turns.waiting)
    return await read_and_reply(fetch)


async def read_and_reply(fetch: Fetch) -> Reply:
    """Read the records, whose places are known, and return the response."""
    items = fetch.plan.items
    if not read_now(Unread.of(items)):
        await read(items, partial(_read_from_actor, fetch), fetch.call.gateway.reading_whole)
    return fetch.reply()


async def _find(fetch: Fetch, replaced: Mapping[ActorKey, Channel]) -> None:
    """Find what there is of every partition: at once if it is enough or an error, else then, or at the deadline."""
    plan = fetch.plan
    if len(plan.parts) == 1 and not plan.failed:
        (part,) = plan.parts
        await _fetch_from(fetch, part, fetch.left_ms, fetch.min_bytes, replaced.get(part.owner))
        return
    await asyncio.gather(*(_fetch_from(fetch, part, 0, 0, replaced.get(part.owner)) for part in plan.parts))
    growing = set(plan.parts)
    while growing and not _is_enough(fetch) and (left_ms := fetch.left_ms) > 0:
        growing -= set(await _wait_for_more(fetch, growing, left_ms))  # they have reached their own max_bytes


def _is_enough(fetch: Fetch) -> bool:
    plan = fetch.plan
    if not plan.items or any(item.failed or item.diverges for item in plan.items):
        return True
    return _size_bytes(plan.parts) >= fetch.min_bytes


async def _wait_for_more(fetch: Fetch, parts: Iterable[Part], max_wait_ms: int) -> list[Part]:
    """Wait until any actor has more than it returned before. Returns those that responded without more."""
    before = {part: part.size_bytes for part in parts}
    waits = {
        asyncio.ensure_future(_fetch_from(fetch, part, max_wait_ms, 1 + size_bytes)): part
        for part, size_bytes in before.items()
    }
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    return [part for wait in done if (part := waits[wait]).size_bytes <= before[part]]


def _size_bytes(parts: Iterable[Part]) -> int:
    return sum(part.size_bytes for part in parts)


async def _fetch_from(
    fetch: Fetch,
    part: Part,
    max_wait_ms: int,
    min_bytes: int,
    instead_of: Channel | None = None,
    *,
    by_place: bool = True,
) -> None:
    """Fetch partitions of one actor; a failure is a failure of all of them.

    An actor that is being replaced is waited for, since clients wait longer after an error. ``instead_of``: over which
    channel the fetch has failed for that reason.
    """
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + max_wait_ms / 1000
    for _ in range(ATTEMPTS):
        channel = await fetch.call.gateway.forwarder.soon(part.owner, instead_of)
        if channel is None:
            part.take(ChannelLost("down"))
            return
        left_ms = max(round((ends_s - loop.time()) * 1000), 0)
        request = request_of(
            fetch, part, by_place=by_place and channel.is_local, max_wait_ms=left_ms, min_bytes=min_bytes
        )
        found = await _response(partial(send, channel, part, request))
        part.take(found)
        if not is_replaced(found):
            return
        instead_of = channel


async def _response(begin: Callable[[OnFetched], Cancel]) -> list[FetchedPartition] | ChannelLost:
    """Wait for the response to what ``begin`` sends."""
    found: asyncio.Future[list[FetchedPartition] | ChannelLost] = asyncio.get_running_loop().create_future()

    def on_fetched(response: list[FetchedPartition] | ChannelLost) -> None:
        if not found.done():
            found.set_result(response)

    cancel = begin(on_fetched)
    try:
        return await found
    finally:
        cancel()


async def _read_from_actor(fetch: Fetch, item: Wanted) -> None:
    """Read the records from the actor, up to the size of their places."""
    gateway, topic = fetch.call.gateway, item.topic
    assert topic is not None
    part = Part(owner_of(gateway, topic, item.index), [item])
    text = "a segment file of %s-%d cannot be read here, its actor is asked instead"
    gateway.complaints.warning("unread places", f"{part.owner}", text, topic.name, item.index)
    part.packed = item.pack(topic, item.size_bytes)
    await _fetch_from(fetch, part, 0, 0, by_place=False)


def serve_directly(fetch: Fetch, responder: Responder) -> Cancel | None:
    """Serve the fetch; return a function that gives it up, None if serving takes a task."""
    parts = fetch.plan.parts
    if not parts or (len(parts) > 1 and fetch.min_bytes > 1):
        return None
    channels: list[Channel] = []
    for part in parts:
        channel = channel_to(fetch.call.gateway, part.owner)
        if channel is None:
            return None
        channels.append(channel)
    direct = DirectFetch(fetch, channels, responder)
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
        max_wait_ms = 0 if fetch.plan.failed else fetch.wait_ms
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
        touched = fetch.plan.touched
        if touched and len(self._channels) > 1:
            fetch.cut()
        unread = Unread.of(touched)
        if unread.size_bytes <= SMALL_BYTES:
            self._read(touched, unread)
        else:
            fetch.call.gateway.turns.now_or_queue(self._in_turn)

    def _in_turn(self) -> float:
        """Read what is large."""
        if not self._is_cancelled:
            try:
                gateway, touched = self._fetch.call.gateway, self._fetch.plan.touched
                shorten_now(touched, gateway.reading_whole, is_alone=not gateway.turns.waiting)
                self._read(touched, Unread.of(touched))
            except Exception as error:
                self._fail(error)
        return 0.0

    def _read(self, touched: Sequence[Wanted], unread: Unread) -> None:
        if not unread.items or read_now(unread):
            self._responder.reply(self._fetch.reply(touched))
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
