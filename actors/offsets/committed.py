"""Committed offsets of one offsets partition's groups, and what is assigned without one, for the lag.

Commits that wait for the disk are included: they may be a moment early, and are gone again if their write fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.actors.group.coordinator import Coordinator
from muster.actors.group.messages import ListedGroup
from muster.actors.group.types import GroupId
from muster.placement.mapping.registration import Kind

_CHUNK_OFFSETS = 2_000
"""Offsets written or read in one turn of an event loop: a few milliseconds. A group counts as one, too."""

Offsets = dict[str, list[tuple[int, int]]]
"""Partitions and their committed offsets, by topic."""


class GroupOffsets(NamedTuple):
    """One group, with every offset that it has committed, and every partition that lacks one."""

    group: str
    state: str
    """State of the group in DescribeGroups or ConsumerGroupDescribe."""
    type: str
    """``classic`` or ``consumer``."""
    protocol_type: str
    """Empty if only offsets were committed so far."""
    members: int
    offsets: Offsets
    without_commit: dict[str, list[int]]
    """Partitions that members have, or have to give up, without a committed offset, by topic."""


class CommittedOffsets:
    """Handles the query ``committed``, which has no arguments."""

    def __init__(self, core: Coordinator) -> None:
        self._core = core

    async def response(self, query: dict[str, Any]) -> dict[str, Any]:
        """All groups, as JSON in chunks. Each group is consistent; other work runs after every few thousand offsets."""
        chunks: list[str] = []
        rows: list[GroupOffsets] = []
        size = 0
        for group in list(self._core.listed()):
            if (row := self._row(group)) is None:
                continue
            rows.append(row)
            size += 1 + sum(map(len, row.offsets.values())) + sum(map(len, row.without_commit.values()))
            if size >= _CHUNK_OFFSETS:
                chunks.append(json.dumps(rows))
                rows, size = [], 0
                await asyncio.sleep(0)
        return {"chunks": [*chunks, json.dumps(rows)]}

    def _assigned(self, group_id: GroupId) -> set[tuple[str, int]]:
        """Return what members have; during a rebalance of the classic protocol, what they had before it."""
        members = (each for each in self._core.registrations_of(group_id) if each.kind is Kind.MEMBER)
        return {partition for member in members for partition in member.partitions or ()}

    def _row(self, listed: ListedGroup) -> GroupOffsets | None:
        """None for a group that was removed meanwhile."""
        name = listed.group_id
        group = self._core.groups.get(name) or self._core.consumer_groups.get(name)
        if group is None:
            return None
        offsets: Offsets = {}
        known = self._core.hard_state.offsets(name)
        for (topic, partition), committed in known.items():
            offsets.setdefault(topic, []).append((partition, committed.offset))
        without: dict[str, list[int]] = {}
        for topic, partition in sorted(self._assigned(name) - known.keys()):
            without.setdefault(topic, []).append(partition)
        found = listed.group_state, listed.group_type, listed.protocol_type
        return GroupOffsets(name, *found, len(group.members), offsets, without)


def read(response: dict[str, Any]) -> Iterator[list[GroupOffsets]]:
    """Yield the groups in a response, a chunk at a time.

    Raises KeyError, TypeError or ValueError for other versions.
    """
    for chunk in response["chunks"]:
        yield [GroupOffsets(*row) for row in json.loads(chunk)]
