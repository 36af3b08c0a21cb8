"""Where groups begin to fetch: as their coordinators answered it (OffsetFetch), or where this gateway left off before.

First fetch offsets are held to it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from muster.gateway.attribution.slot import LAG_MS, Key, Place, same_principal
from muster.placement.mapping.registration import Position

POSITION_MS = 60_000
"""How long after it was told its committed offset a client may begin to fetch there, at most."""
_MAX_PER_PARTITION = 64
"""As many times as one partition may be given to members of a group within POSITION_MS, to be judged by."""


class _Told(NamedTuple):
    at_ms: int
    offset: int
    group: str
    principal: str | None
    is_end: bool
    """Where its stream ended; whoever is there has been told of no other offset."""


class Positions:
    """The committed offsets that clients were told a short time ago."""

    def __init__(self, *, memory_ms: int) -> None:
        self._memory_ms = memory_ms
        self._told: dict[tuple[Key, Place], list[_Told]] = {}
        self._ages: deque[tuple[int, tuple[Key, Place]]] = deque()

    def add(self, position: Position, now_ms: int) -> None:
        """A client of that key was told so just now."""
        key = (position.host, position.client_id)
        for topic, partition, offset in position.positions:
            self.add_one(key, (topic, partition), offset, position.group, now_ms, position.principal)

    def add_one(
        self,
        key: Key,
        place: Place,
        offset: int,
        group: str,
        now_ms: int,
        principal: str | None = None,
        *,
        is_end: bool = False,
    ) -> None:
        """A client of that key and group is about to fetch the partition from there; ``is_end``: to go on with it."""
        where = (key, place)
        told = self._told.setdefault(where, [])
        told.append(_Told(now_ms, offset, group, principal, is_end))
        del told[:-_MAX_PER_PARTITION]
        self._ages.append((now_ms, where))

    def groups_at(self, key: Key, place: Place, offset: int, first_ms: int, principal: str | None) -> set[str]:
        """The groups of which a client that began there at ``first_ms`` was told to."""
        return {
            told.group
            for told in self._told.get((key, place), ())
            if told.offset == offset
            and told.at_ms - LAG_MS <= first_ms <= told.at_ms + POSITION_MS
            and same_principal(told.principal, principal)
        }

    def group_at(
        self, key: Key, place: Place, offset: int, first_ms: int, principal: str | None, options: set[str]
    ) -> str | None:
        """The only one of the groups that the client is of which began there at ``first_ms``; None if that is open.

        Where a stream ended tells one group from another only if it is known where the other one's ended: all who have
        read everything go on from the same offset.
        """
        told = [
            told
            for told in self._told.get((key, place), ())
            if told.group in options
            and told.at_ms - LAG_MS <= first_ms <= told.at_ms + POSITION_MS
            and same_principal(told.principal, principal)
        ]
        there = {each.group for each in told if each.offset == offset}
        if len(there) != 1:
            return None
        is_certain = any(each.offset == offset and not each.is_end for each in told)
        return there.pop() if is_certain or options == {each.group for each in told} else None

    def prune(self, now_ms: int) -> None:
        """Forget what no fetch that may still be judged began by."""
        before_ms = now_ms - POSITION_MS - self._memory_ms
        while self._ages and self._ages[0][0] < before_ms:
            _, where = self._ages.popleft()
            told = [each for each in self._told.get(where, ()) if each.at_ms >= before_ms]
            if told:
                self._told[where] = told
            else:
                self._told.pop(where, None)
