"""The ends of partitions' logs, and when records were appended, as log actors and coordinators respond."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster.actors.wire.channel import ChannelLost
from muster.gateway.apis.partitions import channel_to, owner_of
from muster.gateway.lag.partitions import End
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.gateway import Gateway

log = logging.getLogger(__name__)

_AT_ONCE = 1_000
"""Positions in one query; more are sent once it has its response. To read it takes a few milliseconds."""


class Position(NamedTuple):
    """Where a group is in a partition."""

    topic: str
    partition: int
    offset: int
    """-1: only the end is needed."""


class Ends(NamedTuple):
    """Ends of logs, as far as they are known."""

    by_position: dict[Position, End]
    """Not of unknown partitions, and not of those whose log did not respond."""
    silent: list[str]
    """The actors that did not respond in time, or not for each of their logs."""


async def ends_of(gateway: Gateway, positions: Iterable[Position], timeout_s: float) -> Ends:
    """Return the ends in the logs that respond within that time."""
    by_actor: dict[ActorKey, list[Position]] = {}
    for position in positions:
        topic = gateway.view.topics.get(position.topic)
        if topic is not None and 0 <= position.partition < topic.partitions:
            by_actor.setdefault(owner_of(gateway, topic, position.partition), []).append(position)
    found: dict[Position, End] = {}
    queries = (_query(gateway, actor, each, found, timeout_s) for actor, each in by_actor.items())
    responds = await asyncio.gather(*queries)
    silent = [f"{kind}-{number}" for (kind, number), there in zip(by_actor, responds, strict=True) if not there]
    return Ends(found, sorted(silent))


async def _query(
    gateway: Gateway, actor: ActorKey, positions: Sequence[Position], found: dict[Position, End], timeout_s: float
) -> bool:
    """Whether the actor has responded to all."""
    complete, channel = True, channel_to(gateway, actor)
    if channel is None:
        return False
    try:
        async with asyncio.timeout(timeout_s):
            for at in range(0, len(positions), _AT_ONCE):
                some = positions[at : at + _AT_ONCE]
                response = await channel.query({"ask": "append_times", "partitions": some})
                if "error" in response:
                    log.warning("%s-%d does not tell append times: %s", *actor, response["error"])
                    return False
                for position, part in zip(some, response["partitions"], strict=True):
                    if "error" in part:  # such as a log that another actor takes over
                        complete = False
                    else:
                        found[position] = End(part["end_offset"], part["append_time_ms"], response["now_ms"])
    except (ChannelLost, TimeoutError) as error:
        log.warning("%s-%d does not tell append times: %r", *actor, error)
        return False
    return complete
