"""Serves a fetch that has to wait for more than its actors: for one that is replaced, for the disk, for a sum of bytes.

What cannot be read in time gets an error that brokers send, too: Java's consumer throws an IllegalStateException at any
other, REQUEST_TIMED_OUT among them (FetchCollector.handleInitializeErrors).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from muster.actors.wire.internal.channel import Channel, ChannelLost, OnFetched
from muster.actors.wire.internal.fetch import FetchedPartition, pack_partition
from muster.gateway.apis.data.fetching.fetch import Fetch
from muster.gateway.apis.data.fetching.plan import Part
from muster.gateway.apis.data.fetching.reading import is_small, read, read_now, shorten_now
from muster.gateway.apis.data.fetching.sending import is_replaced, request_of, send
from muster.gateway.apis.data.fetching.wanted import Wanted
from muster.gateway.apis.partitions import owner_of
from muster.gateway.listener.api import Cancel, Reply
from muster.gateway.listener.forward import ActorKey

ATTEMPTS = 3
"""A role passes twice within seconds: from a killed actor to a standby, and back."""


async def serve(fetch: Fetch, replaced: Mapping[ActorKey, Channel]) -> Reply:
    """Serve the fetch. ``replaced``: channels over which an actor has refused it, since it is being replaced."""
    await _find(fetch, replaced)
    fetch.cut()
    items, turns = fetch.plan.items, fetch.call.gateway.turns
    if not is_small(items):
        await turns.turn()
        shorten_now(items, fetch.call.gateway.reading_whole, is_alone=not turns)
    return await read_and_reply(fetch)


async def read_and_reply(fetch: Fetch) -> Reply:
    """Read the records, whose places are known, and return the response."""
    items = fetch.plan.items
    if not read_now(items):
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
    gateway, topic = fetch.call.gateway, item.named.topic
    assert topic is not None
    part = Part(owner_of(gateway, topic, item.named.partition), [item])
    text = "a segment file of %s-%d cannot be read here, its actor is asked instead"
    gateway.complaints.warning("unread places", f"{part.owner}", text, topic.name, item.named.partition)
    part.packed = pack_partition(item.partition(item.size_bytes))
    await _fetch_from(fetch, part, 0, 0, by_place=False)
