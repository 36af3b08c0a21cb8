"""Divides a request about partitions among the actors that own their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from muster.actors.wire.internal.channel import ChannelLost
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.partitions import Named, owner_of, send
from muster.gateway.listener.api import Call
from muster.gateway.listener.forward import ActorKey

TIMEOUT_S = 30.0

Item = tuple[Named, Any]
"""A partition, and what the request says of it."""
Result = dict[str, Any]
"""The partition in the response."""


async def results(
    call: Call,
    items: Sequence[Item],
    refusal: Callable[[Named], ErrorCode | None],
    failed: Callable[[int, ErrorCode], Result],
    query: Callable[[ActorKey, list[Item]], Awaitable[dict[Any, Result]]],
) -> dict[Any, Result]:
    """Return the result for each partition, by key. ``query`` returns those of one owner."""
    found: dict[Any, Result] = {}
    owners: dict[ActorKey, list[Item]] = {}

    def divide(item: Item) -> None:
        partition, _ = item
        if (error := refusal(partition)) is not None:
            found[partition.key] = failed(partition.partition, error)
        else:
            assert partition.topic is not None
            owners.setdefault(owner_of(call.gateway, partition.topic, partition.partition), []).append(item)

    await call.each(items, divide)
    for of_owner in await asyncio.gather(*(query(owner, members) for owner, members in owners.items())):
        found.update(of_owner)
    return found


async def response(call: Call, owner: ActorKey, api_key: int, version: int, body: dict[str, Any]) -> Any | ErrorCode:
    """Return the actor's response to that request, or the error of all its partitions."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            frame = await send(call, owner, api_key, version, body)
    except ChannelLost:
        return ErrorCode.not_leader_or_follower
    except TimeoutError:
        return ErrorCode.request_timed_out
    return codec.decode_response(api_key, version, frame)[1]
