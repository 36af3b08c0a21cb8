"""The lag of all groups, and which groups read each topic: one picture for all HTTP requests of a second."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from muster.gateway.lag.groups import GroupLag, Lags, PartitionLag, Total, WithoutCommit, in_turns, lags_of, total
from muster.gateway.listener.gateway import Gateway

REQUEST_TIMEOUT_S = 5.0
FRESH_S = 1.0


class TopicReader(NamedTuple):
    """A group that has committed offsets of a topic, or has members with partitions of it."""

    group: GroupLag
    partitions: Sequence[PartitionLag]
    without_commit: Sequence[WithoutCommit]

    @property
    def total(self) -> Total:
        """Total over the topic's partitions."""
        return total(self.partitions, self.without_commit)


class Picture(NamedTuple):
    """All groups at one moment."""

    lags: Lags
    readers: Mapping[str, Sequence[TopicReader]]
    """By topic."""


class SharedLags:
    """The picture of one gateway. After a second it is forgotten: it may take megabytes."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lock = asyncio.Lock()
        self._lags: Lags | None = None
        self._readers: Mapping[str, Sequence[TopicReader]] | None = None

    async def lags(self) -> Lags:
        """Return the groups, at most a second old."""
        async with self._lock:
            return await self._current()

    async def picture(self) -> Picture:
        """Return the groups, also by topic."""
        async with self._lock:
            lags = await self._current()
            if self._readers is None:
                self._readers = await readers_of(lags.groups)
            return Picture(lags, self._readers)

    async def _current(self) -> Lags:
        if self._lags is None:
            self._lags, self._readers = await lags_of(self._gateway, REQUEST_TIMEOUT_S), None
            asyncio.get_running_loop().call_later(FRESH_S, self._forget)
        return self._lags

    def _forget(self) -> None:
        self._lags = self._readers = None


async def readers_of(groups: Sequence[GroupLag]) -> dict[str, list[TopicReader]]:
    """Return the groups that read each topic."""
    found: dict[str, list[TopicReader]] = {}
    async for group in in_turns(groups):
        committed, others = _by_topic(group.partitions), _by_topic(group.without_commit)
        for topic in {**committed, **others}:
            reader = TopicReader(group, committed.get(topic, ()), others.get(topic, ()))
            found.setdefault(topic, []).append(reader)
    return found


def _by_topic(rows: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """Group rows, which are in the order of topics."""
    return {topic: tuple(of_topic) for topic, of_topic in groupby(rows, attrgetter("topic"))}
