"""The group behind a connection, where the partition alone does not determine it.

A client belongs to one group, and does not change it on a live connection. So evidence for one partition holds for all
that the connection fetches for that client id, and for good, until a rival appears that the evidence may have fitted
all along, or the group turns out not to own what is fetched for it.

Besides what they own and the offsets that they received, groups differ in when they could fetch (``Slot.absent``):

* a connection that was opened after a member had left is not that member's;
* one that began to fetch a partition before a group owned it is not that group's;
* one that continues to fetch after all members of a group have left is not that group's;
* one that fetches beside the connection of a group's only owner is not that group's.

All of it follows from the order in which the gateway saw events. That a registration did not exist yet is certain if
all coordinators were queried in between (``RegistrationTable.heard``), and assumed after LAG_MS otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.actors.wire.kafka.steps import Steps
from muster.gateway.attribution.claims import Place
from muster.gateway.attribution.connection import ConnectionState, Fetches, Identity, may_overlap, overlap
from muster.gateway.attribution.fetchers import Fetchers
from muster.gateway.attribution.slot import LAG_MS, ClientKey, Observation, Slot
from muster.gateway.attribution.table import RegistrationTable
from muster.gateway.attribution.verdict import Evidence

SETTLED_MS = 2_000
"""How long after its first fetch a partition becomes evidence: registrations may arrive a little late."""
PATIENCE_MS = 5_000
"""The shortest time that bytes wait for better evidence before connections and groups are paired."""
_MAX_DOUBTS = 16


class Identities:
    """Finds, keeps and drops the identities of all :class:`Fetches`."""

    def __init__(self, table: RegistrationTable, fetchers: Fetchers) -> None:
        self._table = table
        self._fetchers = fetchers
        self.waiting: dict[ClientKey, dict[Fetches, None]] = {}
        """Fetches with bytes that wait for the identity; the longest unexamined first."""
        self._guesses: dict[Fetches, None] = {}
        self._news: set[ClientKey] = set()
        self._successors: dict[Fetches, None] = {}
        """Fetches with a non-empty ``after``."""

    def certain(self, fetches: Fetches, place: Place, group: str, at_ms: int) -> None:
        """Record that the partition was the group's by assignment alone, independent of the connection."""
        before = self.standing(fetches)
        if fetches.is_shared or (before is not None and before.group == group and not before.is_guess):
            return
        if before is not None and not before.is_guess:
            self.doubt(fetches, place, at_ms)
            return
        self.identify(fetches, Identity(group, Evidence.BINDING, (Observation(place, at_ms, at_ms),)))

    def commits(self, fetches: Fetches, group: str) -> None:
        """Record that a simple consumer of the group fetches on it; it is not known as another group's."""
        fetches.simple_of |= {group}
        seen = fetches.observations()
        over = frozenset(self.fitting(fetches, seen) - {group})
        self.identify(fetches, Identity(group, Evidence.OFFSET_CONTINUITY, tuple(seen), over))
        self.reconsider(fetches)

    def known(self, fetches: Fetches) -> str | None:
        """Return the group that it is known to belong to; None if there is none, or better evidence may replace it."""
        found = self.standing(fetches)
        return None if found is None or found.is_guess else found.group

    def same_connection(self, fetches: Fetches, place: Place, group: str, possible: set[str], at_ms: int) -> None:
        """Record that the group also sends its own requests on the connection."""
        if fetches.identity is None or fetches.identity.group != group:
            basis = (Observation(place, at_ms, at_ms),)
            self.identify(fetches, Identity(group, Evidence.SAME_CONNECTION, basis, frozenset(possible - {group})))

    def doubt(self, fetches: Fetches, place: Place, at_ms: int) -> None:
        """Record that the partition was fetched then and is not the identity's, unless its registration is late."""
        doubt = (place, at_ms)
        if fetches.identity is not None and len(fetches.doubts) < _MAX_DOUBTS and doubt not in fetches.doubts:
            fetches.doubts.append(doubt)
            self.reconsider(fetches)

    def put_out(self, fetches: Fetches, group: str) -> None:
        """Record that it is not the group's, despite its address and client id."""
        fetches.outside_of.add(group)
        self.give_up(fetches, group)
        self.reconsider(fetches)

    def give_up(self, fetches: Fetches, group: str) -> None:
        """Drop its identity if it is that group's."""
        if fetches.identity is not None and fetches.identity.group == group:
            self._drop(fetches)

    def of(self, fetches: Fetches) -> Identity | None:
        """Return the group behind it, if known; None while there are doubts about it."""
        found = self.standing(fetches)
        if fetches.doubts:
            return None
        if (found is None or found.is_guess) and not fetches.is_shared:
            now = (self._table.version(*fetches.key), fetches.news, self._fetchers.now_ms // 1_000)
            if fetches.tried != now:
                fetches.tried = now
                better = self._by_session(fetches) or self._by_offsets(fetches)
                if better is not None and better != found and not self.is_taken(fetches, better.group):
                    self.identify(fetches, better)
        return fetches.identity

    def closed(self, connection: ConnectionState) -> None:
        """Note a closed connection: those that fetched the same beside it stay other clients."""
        for fetches in connection.fetches.values():
            self._set_apart(fetches)

    def wait(self, fetches: Fetches, at_ms: int) -> None:
        """Record that bytes wait for its identity."""
        if fetches.waiting_since_ms is None:
            fetches.waiting_since_ms = at_ms
        self.waiting.setdefault(fetches.key, {})[fetches] = None

    def review(self) -> Steps[None]:
        """Drop what later Fetches contradict, and look for better evidence where there are guesses.

        Only one may be under way. Everything else may happen between its steps.
        """
        for fetches in list(self._successors):
            yield
            if self._came_back(fetches):
                self._drop(fetches)
            if fetches.identity is None or not any(other.connection.is_open for other in fetches.after):
                del self._successors[fetches]
        for fetches in list(self._guesses):
            yield
            if fetches.connection.is_open and fetches.identity is not None and fetches.identity.is_guess:
                self.of(fetches)
            else:
                del self._guesses[fetches]

    def news(self) -> set[ClientKey]:
        """Return the keys with identities that were found or dropped since the last call."""
        news, self._news = self._news, set()
        return news

    def standing(self, fetches: Fetches) -> Identity | None:
        """Return the identity, dropped if a rival appeared or it was contradicted."""
        identity = fetches.identity
        if identity is None:
            return None
        version = self._table.version(*fetches.key)
        if version != fetches.stood:
            rivals = self.fitting(fetches, identity.basis) - identity.over - {identity.group}
            if rivals - self.absent(fetches, rivals, identity.basis):
                self._drop(fetches)
                return None
            fetches.stood = version
        slot = self._table.slot(*fetches.key)
        while fetches.doubts and self._fetchers.now_ms - fetches.doubts[0][1] >= LAG_MS:
            place, at_ms = fetches.doubts.pop(0)
            owners = slot.possible(place, at_ms, fetches.reader) if slot is not None else set()
            if identity.group not in owners:
                fetches.is_shared = bool(owners)
                self._drop(fetches)
                return None
            self.reconsider(fetches)
        return identity

    def identify(self, fetches: Fetches, identity: Identity) -> None:
        for other in self.neighbours(fetches):
            if other.identity is not None and other.identity.group == identity.group and other.identity.is_guess:
                self._drop(other)
        is_news = fetches.identity is not None or fetches.key in self.waiting
        if fetches.identity is None or fetches.identity.group != identity.group:
            fetches.identified_ms = self._fetchers.now_ms
        fetches.identity = identity
        if identity.is_guess:
            self._guesses[fetches] = None
        fetches.doubts.clear()
        fetches.after = [] if identity.evidence is Evidence.BINDING else self._past(fetches, identity.group)
        if fetches.after:
            self._successors[fetches] = None
        if not fetches.connection.is_open:
            self._set_apart(fetches)
        if is_news:
            self.reconsider(fetches)
        fetches.stood = self._table.version(*fetches.key)

    def fitting(self, fetches: Fetches, seen: Iterable[Observation]) -> set[str]:
        slot: Slot | None = self._table.slot(*fetches.key)
        return set() if slot is None else slot.fitting(seen, fetches.reader) - fetches.not_of - fetches.outside_of

    def absent(self, fetches: Fetches, groups: set[str], seen: Iterable[Observation]) -> set[str]:
        slot = self._table.slot(*fetches.key)
        return set() if slot is None or not groups else slot.absent(groups, seen, fetches.reader)

    def is_taken(self, fetches: Fetches, group: str) -> bool:
        """Whether another client that fetches one of the same partitions is certainly the group's."""
        return any(
            other.identity is not None and other.identity.group == group and not other.identity.is_guess
            for other in self.neighbours(fetches)
        )

    def neighbours(self, fetches: Fetches) -> set[Fetches]:
        return {
            other
            for place in fetches.places()
            for other in self._fetchers.beside(fetches, place)
            if may_overlap(fetches, other, place)
        }

    def others(self, fetches: Fetches, place: Place) -> Iterator[Fetches]:
        """Yield connections that fetch the partition beside it, and closed ones that did and have waiting bytes."""
        yield from self._fetchers.beside(fetches, place)
        for other in self.waiting.get(fetches.key, ()):
            is_other = other is not fetches and other.principal == fetches.principal
            if is_other and not other.connection.is_open and other.knows(place):
                yield other

    def seats(self, fetches: Fetches, place: Place, group: str) -> dict[str, bool]:
        """Return the group's owners of the partition that this may belong to, and whether each is a member."""
        slot = self._table.slot(*fetches.key)
        claims = [] if slot is None else slot.owners(*place, fetches.last_ms(place), fetches.reader, group=group)
        return {claim.member_id: claim.of_member for claim in claims}

    def reconsider(self, fetches: Fetches) -> None:
        """Have verdicts on that key given again: they may now be better."""
        self._table.touch(fetches.key)
        self._news.add(fetches.key)

    def _set_apart(self, fetches: Fetches) -> None:
        """Rule out the group of this closed connection for all that fetched beside it, including closed ones."""
        if fetches.identity is None or fetches.identity.is_guess:
            return
        group = fetches.identity.group
        for place in fetches.known():
            for other in self.others(fetches, place):
                if overlap(fetches, other, place) and len(self.seats(other, place, group)) <= 1:
                    other.not_of.add(group)

    def _by_session(self, fetches: Fetches) -> Identity | None:
        """Return the identity if all that is fetched belongs to one group and to no other."""
        settled_ms = max(self._fetchers.now_ms - SETTLED_MS, self._table.heard_ms)
        seen = fetches.observations(begun_by_ms=settled_ms)
        fitting = self.fitting(fetches, seen)
        options = fitting - self.absent(fetches, fitting, seen)
        if len(options) != 1:
            return None
        return Identity(min(options), Evidence.SESSION, tuple(seen), frozenset(fitting - options))

    def _by_offsets(self, fetches: Fetches) -> Identity | None:
        """Return the identity if it alone began at offsets that clients of one group, and no other, received."""
        seen = fetches.observations()
        fitting = self.fitting(fetches, seen)
        options = fitting - self.absent(fetches, fitting, seen)
        groups: set[str] = set()
        for observation in seen:
            place, offset = observation.place, fetches.first_offset(observation.place)
            group = self._table.positions.group_at(
                fetches.key, place, offset, observation.first_ms, fetches.principal, options
            )
            if group is not None and not self._has_twin(fetches, place, offset):
                groups.add(group)
        if len(groups) != 1:
            return None
        [group] = groups
        return Identity(group, Evidence.OFFSET_CONTINUITY, tuple(seen), frozenset(fitting - groups))

    def _has_twin(self, fetches: Fetches, place: Place, offset: int) -> bool:
        return any(
            other.identity is None and other.first_offset(place) == offset and may_overlap(fetches, other, place)
            for other in self._fetchers.beside(fetches, place)
        )

    def _past(self, fetches: Fetches, group: str) -> list[Fetches]:
        """Open connections of the group that fetched the same and have stopped."""
        return [
            other
            for place in fetches.places()
            for other in self._fetchers.beside(fetches, place)
            if other.identity is not None and other.identity.group == group
        ]

    def _came_back(self, fetches: Fetches) -> bool:
        """Whether a connection that it seemed to succeed fetches beside it."""
        return any(
            other.connection.is_open
            and other.identity is not None
            and fetches.identity is not None
            and other.identity.group == fetches.identity.group
            and any(other.last_ms(place) >= fetches.first_ms(place) for place in fetches.places() if other.knows(place))
            for other in fetches.after
        )

    def _drop(self, fetches: Fetches) -> None:
        fetches.identity = None
        fetches.tried = None
        fetches.doubts.clear()
        self.reconsider(fetches)
