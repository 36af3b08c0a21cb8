"""Requests to the actor that coordinates a partition: of groups, or of transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from muster.actors.wire.internal.channel import ChannelLost, OnLease
from muster.actors.wire.kafka.codec import ErrorCode

if TYPE_CHECKING:
    from muster.gateway.listener.api import Call

REQUEST_TIMEOUT_S = 10.0
"""How long an actor may take for requests that it does not park; it responds to slow writes itself, after 5 s."""

AT_ONCE = 4

Listed = tuple[ErrorCode, list[bytes]]
"""Elements of a response, each as its bytes; none with an error."""


async def listed(partitions: Sequence[int], of_one: Callable[[int], Awaitable[Listed]]) -> Listed:
    """Return the lists of these partitions' actors, in that order. After an error of one, no other is called.

    AT_ONCE of them work at a time: if all did, other requests of the host would have to wait for all of them. The error
    is COORDINATOR_LOAD_IN_PROGRESS, too, if all of it takes half as long again as one actor may.
    """
    found: dict[int, list[bytes]] = {}
    failed, left = ErrorCode.none, iter(partitions)

    async def some() -> None:
        nonlocal failed
        for partition in left:
            if failed:
                return
            error, found[partition] = await of_one(partition)
            failed = failed or error

    works = [asyncio.ensure_future(some()) for _ in range(AT_ONCE)]
    try:
        async with asyncio.timeout(1.5 * REQUEST_TIMEOUT_S):  # later than that of an actor, which is counted
            await asyncio.gather(*works)
    except TimeoutError:
        failed = ErrorCode.coordinator_load_in_progress
    finally:
        for work in works:
            work.cancel()
    return failed, [] if failed else [*chain.from_iterable(found[partition] for partition in partitions)]


async def call_owner(
    call: Call, partition: int, kind: str, frame: bytes, parked_s: float = 0.0, on_lease: OnLease | None = None
) -> bytes | None:
    """Return the response of the partition's actor to a frame; None if the actor is down or the channel was lost.

    The actor is started if it never ran. ``parked_s``: how long a request may wait for others.
    """
    gateway = call.gateway
    channel = gateway.forwarder.channel((kind, partition)) or await gateway.coordinator(partition, kind)
    if channel is None:
        if gateway.view.owners(kind).get(partition) is None:
            gateway.activate(partition, kind)
        return None
    try:
        async with asyncio.timeout(parked_s + REQUEST_TIMEOUT_S):
            return await channel.call(call.connection.context, frame, on_lease)
    except (ChannelLost, TimeoutError):
        gateway.metrics.forward_error(f"{kind}-{partition}")
        return None
