"""The group behind a connection, where the partition alone does not tell it.

A client is of one group, and does not change it on a live connection. So what tells the group for one partition tells
it for all that the connection fetches for that client id, and tells it for good: until a rival turns up that may have
been meant all along, or the group turns out not to own what is fetched for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.attribution.connection import ConnectionState
from gateway.attribution.fetchers import Fetchers
from gateway.attribution.fetches import Fetches, Identity, all_overlap, may_overlap, overlap
from gateway.attribution.slot import LAG_MS, Key, Observation, Place, Slot
from gateway.attribution.table import RegistrationTable
from gateway.attribution.verdict import Evidence

SETTLED_MS = 2_000
"""A partition says who fetches it only so long after it was fetched first: registrations may come a little late."""
PATIENCE_MS = 5_000
"""How long bytes wait for better evidence before connections and groups are paired."""
_MAX_DOUBTS = 16
_WAIT_MS = 60_000
"""How much longer than it lives a connection is asked about."""


class Identities:
    """Finds, keeps and gives up the identities of all :class:`Fetches`."""

    def __init__(self, table: RegistrationTable, fetchers: Fetchers) -> None:
        self._table = table
        self._fetchers = fetchers
        self._waiting: dict[Key, dict[Fetches, None]] = {}
        self._news: set[Key] = set()
        self._successors: dict[Fetches, None] = {}
        """Those whose ``after`` is not empty."""

    def certain(self, fetches: Fetches, place: Place, group: str, at_ms: int) -> None:
        """The partition was the group's by its assignment alone, whoever sent the Fetch."""
        before = self._standing(fetches)
        if fetches.is_shared or (before is not None and before.group == group and not before.is_guess):
            return
        if before is not None and not before.is_guess:
            self.doubt(fetches, place, at_ms)
            return
        self._settle(fetches, Identity(group, Evidence.BINDING, (Observation(place, at_ms, at_ms),)))

    def same_connection(self, fetches: Fetches, place: Place, group: str, possible: set[str], at_ms: int) -> None:
        """The group sends its own requests on the connection too."""
        if fetches.identity is None or fetches.identity.group != group:
            basis = (Observation(place, at_ms, at_ms),)
            self._settle(fetches, Identity(group, Evidence.SAME_CONNECTION, basis, frozenset(possible - {group})))

    def doubt(self, fetches: Fetches, place: Place, at_ms: int) -> None:
        """The partition was fetched then, and is not the identity's, unless its registration is late."""
        doubt = (place, at_ms)
        if fetches.identity is not None and len(fetches.doubts) < _MAX_DOUBTS and doubt not in fetches.doubts:
            fetches.doubts.append(doubt)
            self.tell(fetches)

    def put_out(self, fetches: Fetches, group: str) -> None:
        """It is not the group's, whatever its address and client id say."""
        fetches.outside_of.add(group)
        self.give_up(fetches, group)
        self.tell(fetches)

    def give_up(self, fetches: Fetches, group: str) -> None:
        """It is not known any more as that group's."""
        if fetches.identity is not None and fetches.identity.group == group:
            self._drop(fetches)

    def of(self, fetches: Fetches) -> Identity | None:
        """The group behind it, if that can be told; not while there are doubts about it."""
        found = self._standing(fetches)
        if fetches.doubts:
            return None
        if (found is None or found.is_guess) and not fetches.is_shared:
            now = (self._table.version(*fetches.key), fetches.news, self._fetchers.now_ms // 1_000)
            if fetches.tried != now:
                fetches.tried = now
                better = self._by_session(fetches) or self._by_offsets(fetches)
                if better is not None and better != found and not self._is_taken(fetches, better.group):
                    self._settle(fetches, better)
        return fetches.identity

    def closed(self, connection: ConnectionState) -> None:
        """Whoever fetched the same beside it is another client, whatever becomes of this one."""
        for fetches in connection.fetches.values():
            if fetches.identity is not None:
                for place in fetches.known():
                    for other in self._fetchers.beside(fetches, place):
                        if overlap(fetches, other, place):
                            other.not_of.add(fetches.identity.group)

    def wait(self, fetches: Fetches, at_ms: int) -> None:
        """Bytes wait for its identity."""
        if fetches.waiting_since_ms is None:
            fetches.waiting_since_ms = at_ms
        self._waiting.setdefault(fetches.key, {})[fetches] = None

    def settle(self) -> set[Key]:
        """Look again at those for which bytes wait, and pair what nothing tells apart; keys with news since last."""
        for fetches in list(self._successors):
            if self._came_back(fetches):
                self._drop(fetches)
            if fetches.identity is None or not any(other.connection.is_open for other in fetches.after):
                del self._successors[fetches]
        for key, waiting in list(self._waiting.items()):
            visited: set[tuple[str, Place]] = set()
            for fetches in list(waiting):
                if self.of(fetches) is not None or self._fetchers.now_ms - fetches.last_active_ms > _WAIT_MS:
                    del waiting[fetches]
                    fetches.waiting_since_ms = None
                    continue
                for place in fetches.places():
                    if (fetches.principal, place) not in visited:
                        visited.add((fetches.principal, place))
                        self._pair(fetches, place)
            if not waiting:
                del self._waiting[key]
        news, self._news = self._news, set()
        return news

    def _by_session(self, fetches: Fetches) -> Identity | None:
        """All that is fetched is one group's and no other one's."""
        seen = fetches.observations(begun_by_ms=self._fetchers.now_ms - SETTLED_MS)
        fitting = self._fitting(fetches, seen)
        return Identity(fitting.pop(), Evidence.SESSION, tuple(seen)) if len(fitting) == 1 else None

    def _by_offsets(self, fetches: Fetches) -> Identity | None:
        """It began where clients of one group were told to, and of no other; nobody else began there too."""
        seen = fetches.observations()
        fitting = self._fitting(fetches, seen)
        told: set[str] = set()
        for observation in seen:
            place, offset = observation.place, fetches.first_offset(observation.place)
            groups = self._table.positions.groups_at(
                fetches.key, place, offset, observation.first_ms, fetches.principal
            ).intersection(fitting)
            if len(groups) == 1 and not self._has_twin(fetches, place, offset):
                told |= groups
        if len(told) != 1:
            return None
        [group] = told
        return Identity(group, Evidence.OFFSET_CONTINUITY, tuple(seen), frozenset(fitting - told))

    def _has_twin(self, fetches: Fetches, place: Place, offset: int) -> bool:
        return any(
            other.identity is None and other.first_offset(place) == offset and may_overlap(fetches, other, place)
            for other in self._fetchers.beside(fetches, place)
        )

    def _pair(self, fetches: Fetches, place: Place) -> None:
        """One connection to one group, where there are as many of both: certain for the last one that is left."""
        slot = self._table.slot(*fetches.key)
        now_ms = self._fetchers.now_ms
        here = self._fetchers.at(fetches, place)
        open_ = [each for each in here if self._standing(each) is None and not each.is_shared]
        if slot is None or not open_ or (len(here) > 1 and not all_overlap(here, place)):
            return
        groups = slot.possible(place, now_ms, fetches.principal)
        held = {each.identity.group for each in here if each.identity is not None}
        left = groups - held
        if len(groups) < 2 or len(here) > len(groups) or not held <= groups:
            return
        waited_ms = now_ms - max(max(each.first_ms(place), each.waiting_since_ms or 0) for each in open_)
        can_eliminate = bool(held) and waited_ms >= SETTLED_MS
        can_pair = len(open_) == len(left) and waited_ms >= PATIENCE_MS
        if not can_eliminate and not can_pair:
            return
        options = [self._fitting(each, each.observations()) & left for each in open_]
        lone = [(each, groups) for each, groups in zip(open_, options, strict=True) if len(groups) == 1]
        if can_eliminate and lone:
            for each, only in lone:
                self._guess(each, min(only))
        elif can_pair:
            for each, group in zip(open_, pairs(options) or (), strict=False):
                self._guess(each, group)

    def _guess(self, fetches: Fetches, group: str) -> None:
        held = {other.identity.group for other in self._neighbours(fetches) if other.identity is not None}
        if group not in held:
            seen = fetches.observations()
            over = frozenset(self._fitting(fetches, seen) - {group})
            self._settle(fetches, Identity(group, Evidence.ONE_TO_ONE, tuple(seen), over))

    def _is_taken(self, fetches: Fetches, group: str) -> bool:
        """Whether another client that fetches one of the same partitions is certainly the group's."""
        return any(
            other.identity is not None and other.identity.group == group and not other.identity.is_guess
            for other in self._neighbours(fetches)
        )

    def _neighbours(self, fetches: Fetches) -> set[Fetches]:
        return {
            other
            for place in fetches.places()
            for other in self._fetchers.beside(fetches, place)
            if may_overlap(fetches, other, place)
        }

    def _past(self, fetches: Fetches, group: str) -> list[Fetches]:
        """Open connections of the group that fetched the same, and do no more."""
        return [
            other
            for place in fetches.places()
            for other in self._fetchers.beside(fetches, place)
            if other.identity is not None and other.identity.group == group
        ]

    def _came_back(self, fetches: Fetches) -> bool:
        """Whether a connection that seemed to be its past fetches beside it."""
        return any(
            other.connection.is_open
            and other.identity is not None
            and fetches.identity is not None
            and other.identity.group == fetches.identity.group
            and any(other.last_ms(place) >= fetches.first_ms(place) for place in fetches.places() if other.knows(place))
            for other in fetches.after
        )

    def _standing(self, fetches: Fetches) -> Identity | None:
        """The identity, given up if a rival turned up for it or it was contradicted."""
        identity = fetches.identity
        if identity is None:
            return None
        version = self._table.version(*fetches.key)
        if version != fetches.stood:
            if not self._fitting(fetches, identity.basis) <= identity.over | {identity.group}:
                self._drop(fetches)
                return None
            fetches.stood = version
        slot = self._table.slot(*fetches.key)
        while fetches.doubts and self._fetchers.now_ms - fetches.doubts[0][1] >= LAG_MS:
            place, at_ms = fetches.doubts.pop(0)
            owners = slot.possible(place, at_ms, fetches.principal) if slot is not None else set()
            if identity.group not in owners:
                fetches.is_shared = bool(owners)
                self._drop(fetches)
                return None
            self.tell(fetches)
        return identity

    def _fitting(self, fetches: Fetches, seen: Iterable[Observation]) -> set[str]:
        slot: Slot | None = self._table.slot(*fetches.key)
        return set() if slot is None else slot.fitting(seen, fetches.principal) - fetches.not_of - fetches.outside_of

    def _settle(self, fetches: Fetches, identity: Identity) -> None:
        for other in self._neighbours(fetches):
            if other.identity is not None and other.identity.group == identity.group and other.identity.is_guess:
                self._drop(other)
        is_news = fetches.identity is not None or fetches.key in self._waiting
        if fetches.identity is None or fetches.identity.group != identity.group:
            fetches.identified_ms = self._fetchers.now_ms
        fetches.identity = identity
        fetches.doubts.clear()
        fetches.after = [] if identity.evidence is Evidence.BINDING else self._past(fetches, identity.group)
        if fetches.after:
            self._successors[fetches] = None
        if is_news:
            self.tell(fetches)
        fetches.stood = self._table.version(*fetches.key)

    def _drop(self, fetches: Fetches) -> None:
        fetches.identity = None
        fetches.tried = None
        fetches.doubts.clear()
        self.tell(fetches)

    def tell(self, fetches: Fetches) -> None:
        """What was said about that key may be said better now."""
        self._table.touch(fetches.key)
        self._news.add(fetches.key)


def pairs(options: Sequence[set[str]]) -> list[str] | None:
    """One group for each, all different, the same for the same options; None if there is no such choice."""
    owner: dict[str, int] = {}

    def place(number: int, tried: set[str]) -> bool:
        for group in sorted(options[number] - tried, key=lambda group: (group in owner, group)):
            tried.add(group)
            if group not in owner or place(owner[group], tried):
                owner[group] = number
                return True
        return False

    if not all(place(number, set()) for number in range(len(options))):
        return None
    chosen = {number: group for group, number in owner.items()}
    return [chosen[number] for number in range(len(options))]
