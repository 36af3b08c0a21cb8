"""Offsets at which groups begin to fetch: from their coordinators' responses (OffsetFetch) or this gateway's last run.

The first fetch offsets of connections are compared with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count
from operator import itemgetter
from typing import NamedTuple

from muster.gateway.attribution.claims import Place, same_principal
from muster.gateway.attribution.slot import LAG_MS, ClientKey
from muster.placement.mapping.registration import Position

POSITION_MS = 60_000
"""The longest time between receiving a committed offset and beginning to fetch there."""
_MAX_PER_PARTITION = 64
"""The most offsets of one partition that are kept for members of a group within POSITION_MS."""


_Fetched = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics and partitions of a response."""


class _Received(NamedTuple):
    at_ms: int
    offset: int
    group: str
    principal: str | None
    is_end: bool
    """Whether a stream ended there; such a client has received no other offset."""
    is_hint: bool
    """Whether it may have been an admin tool that received it (``Position.is_hint``)."""

    @property
    def is_certain(self) -> bool:
        return not (self.is_end or self.is_hint)


class _Whole(NamedTuple):
    """A response, by its number."""

    number: int
    at_ms: int
    position: Position


class Positions:
    """The committed offsets that clients received a short time ago."""

    def __init__(self, *, memory_ms: int) -> None:
        self._memory_ms = memory_ms
        self._received: dict[tuple[ClientKey, Place], list[_Received]] = {}
        self._ages: deque[tuple[int, tuple[ClientKey, Place]]] = deque()
        self._whole: dict[ClientKey, dict[_Fetched, deque[_Whole]]] = {}
        """Responses whose offsets are not in ``_received`` yet: of most clients no one ever looks them up."""
        self._whole_ages: deque[tuple[int, ClientKey, _Fetched]] = deque()
        self._numbers = count()

    def add(self, position: Position, now_ms: int) -> None:
        """Record that a client of that key has just received these offsets."""
        key = (position.host, position.client_id)
        fetched = tuple([(topic, indexes) for topic, indexes, _ in position.topics])
        of_client = self._whole.setdefault(key, {})
        alike = of_client.get(fetched)
        if alike is None:
            alike = of_client[fetched] = deque(maxlen=_MAX_PER_PARTITION)
        alike.append(_Whole(next(self._numbers), now_ms, position))
        self._whole_ages.append((now_ms, key, fetched))

    def add_one(
        self,
        key: ClientKey,
        place: Place,
        offset: int,
        group: str,
        now_ms: int,
        principal: str | None = None,
        *,
        is_end: bool = False,
        is_hint: bool = False,
    ) -> None:
        """Record that a client of that key and group will fetch from that offset; ``is_end``: to continue a stream."""
        self._take_apart(key)
        self._keep(key, place, _Received(now_ms, offset, group, principal, is_end, is_hint))

    def _of(self, key: ClientKey, place: Place) -> Sequence[_Received]:
        """Return what clients of that key have received of the partition."""
        self._take_apart(key)
        return self._received.get((key, place), ())

    def _take_apart(self, key: ClientKey) -> None:
        """Keep the offsets of the key's responses one by one, in the order in which they came."""
        responses = [each for alike in self._whole.pop(key, {}).values() for each in alike]
        for _, at_ms, position in sorted(responses, key=itemgetter(0)):
            for topic, indexes, offsets in position.topics:
                for index, offset in zip(indexes, offsets, strict=True):
                    found = _Received(at_ms, offset, position.group, position.principal, False, position.is_hint)
                    self._keep(key, (topic, index), found)

    def _keep(self, key: ClientKey, place: Place, found: _Received) -> None:
        where = (key, place)
        received = self._received.setdefault(where, [])
        received.append(found)
        del received[:-_MAX_PER_PARTITION]
        self._ages.append((found.at_ms, where))

    def groups_at(self, key: ClientKey, place: Place, offset: int, first_ms: int, principal: str | None) -> set[str]:
        """Return the groups with a client that received this offset, and so may have begun there at ``first_ms``."""
        return {
            each.group
            for each in self._of(key, place)
            if each.offset == offset
            and not each.is_hint
            and each.at_ms - LAG_MS <= first_ms <= each.at_ms + POSITION_MS
            and same_principal(each.principal, principal)
        }

    def group_at(
        self, key: ClientKey, place: Place, offset: int, first_ms: int, principal: str | None, options: set[str]
    ) -> str | None:
        """Return the only one of ``options`` that began there at ``first_ms``; None if that is not certain.

        The end of a stream, or an offset that an admin tool may have requested, distinguishes one group from another
        only if the other's is known, too: all clients that have read everything continue from the same offset.
        """
        received = [
            each
            for each in self._of(key, place)
            if each.group in options
            and each.at_ms - LAG_MS <= first_ms <= each.at_ms + POSITION_MS
            and same_principal(each.principal, principal)
        ]
        there = {each.group for each in received if each.offset == offset}
        if len(there) != 1:
            return None
        is_certain = any(each.offset == offset and each.is_certain for each in received)
        return there.pop() if is_certain or options == {each.group for each in received} else None

    def prune(self, now_ms: int) -> None:
        """Forget positions that are too old for any fetch that may still be judged."""
        before_ms = now_ms - POSITION_MS - self._memory_ms
        while self._whole_ages and self._whole_ages[0][0] < before_ms:
            _, key, fetched = self._whole_ages.popleft()
            self._prune_whole(key, fetched, before_ms)
        while self._ages and self._ages[0][0] < before_ms:
            _, where = self._ages.popleft()
            received = [each for each in self._received.get(where, ()) if each.at_ms >= before_ms]
            if received:
                self._received[where] = received
            else:
                self._received.pop(where, None)

    def _prune_whole(self, key: ClientKey, fetched: _Fetched, before_ms: int) -> None:
        of_client = self._whole.get(key, {})
        alike = of_client.get(fetched)
        if alike is None:
            return
        while alike and alike[0].at_ms < before_ms:
            alike.popleft()
        if not alike:
            del of_client[fetched]
            if not of_client:
                del self._whole[key]
