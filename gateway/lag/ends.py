"""The ends of partitions' logs, and when records were appended, as log actors and coordinators respond."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.gateway.apis.partitions import channel_to, owner_of
from muster.gateway.lag.partitions import End, TopicPartition
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.gateway import Gateway

log = logging.getLogger(__name__)

_AT_ONCE = 1_000
"""Positions in one query; more are sent once it has its response. To read it takes a few milliseconds."""
_NO_OFFSET = -1
"""In a query for the end alone."""

Positions = Mapping[TopicPartition, Collection[int]]
"""The offsets in each partition where a group is."""
_Position = tuple[str, int, int]


@dataclass(slots=True)
class LogEnd:
    """One partition."""

    start_offset: int
    end_offset: int
    by_offset: dict[int, End] = field(default_factory=dict)
    """The ends, with append times, by the offset that they were requested for."""


class Ends(NamedTuple):
    """Ends of logs, as far as they are known."""

    by_partition: dict[TopicPartition, LogEnd]
    """Not of unknown partitions, and not of those whose log did not respond."""
    silent: list[str]
    """The actors that did not respond in time, or not for each of their logs."""

    def at(self, partition: TopicPartition, offset: int) -> End | None:
        """Return the end, with the append time of that offset if it is known. None if the end is unknown."""
        found = self.by_partition.get(partition)
        return None if found is None else found.by_offset.get(offset, End(found.end_offset))

    def messages(self, partition: TopicPartition) -> int | None:
        """Return how many offsets the log has; None if that is unknown."""
        found = self.by_partition.get(partition)
        return None if found is None else found.end_offset - found.start_offset


class _Refused(Exception):
    """The actor cannot answer."""


async def ends_of(gateway: Gateway, positions: Positions, timeout_s: float) -> Ends:
    """Return the ends in the logs that respond within that time. The ends come first, then the append times."""
    by_actor: dict[ActorKey, list[TopicPartition]] = {}
    for name, partition in positions:
        topic = gateway.view.topics.get(name)
        if topic is not None and 0 <= partition < topic.partitions:
            by_actor.setdefault(owner_of(gateway, topic, partition), []).append((name, partition))
    found: dict[TopicPartition, LogEnd] = {}
    queries = (
        _query(gateway, actor, {each: positions[each] for each in partitions}, found, timeout_s)
        for actor, partitions in by_actor.items()
    )
    responds = await asyncio.gather(*queries)
    silent = [f"{kind}-{number}" for (kind, number), there in zip(by_actor, responds, strict=True) if not there]
    return Ends(found, sorted(silent))


async def _query(
    gateway: Gateway, actor: ActorKey, positions: Positions, found: dict[TopicPartition, LogEnd], timeout_s: float
) -> bool:
    """Whether the actor has responded to all."""
    complete, channel = True, channel_to(gateway, actor)
    if channel is None:
        return False
    ends = ((*each, _NO_OFFSET) for each in positions)
    unread = (
        (*each, offset)
        for each, offsets in positions.items()
        if each in found
        for offset in sorted(offsets)  # so that the log looks a batch up once
        if 0 <= offset < found[each].end_offset
    )
    try:
        async with asyncio.timeout(timeout_s):
            async with aclosing(_responses(channel, ends)) as responses:
                async for (topic, partition, _), part, _ in responses:
                    if "error" in part:  # such as a log that another actor takes over
                        complete = False
                    else:
                        found[topic, partition] = LogEnd(part["start_offset"], part["end_offset"])
            async with aclosing(_responses(channel, unread)) as responses:
                async for (topic, partition, offset), part, now_ms in responses:
                    if "error" in part:
                        complete = False
                    else:
                        end = End(part["end_offset"], part["append_time_ms"], now_ms)
                        found[topic, partition].by_offset[offset] = end
    except (ChannelLost, TimeoutError, _Refused) as error:
        log.warning("%s-%d does not tell append times: %r", *actor, error)
        return False
    return complete


async def _responses(
    channel: Channel, positions: Iterable[_Position]
) -> AsyncGenerator[tuple[_Position, dict[str, Any], int], None]:
    """Yield each position, what the actor responds about it, and when. ChannelLost, _Refused."""
    left = iter(positions)
    while some := list(islice(left, _AT_ONCE)):
        response = await channel.query({"ask": "append_times", "partitions": some})
        if "error" in response:
            raise _Refused(response["error"])
        for position, part in zip(some, response["partitions"], strict=True):
            yield position, part, response["now_ms"]
