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

from collections.abc import Iterable, Iterator, Mapping, Sequence

from muster.actors.wire.steps.reading import Steps
from muster.gateway.attribution.claims import Place
from muster.gateway.attribution.connection import (
    ConnectionState,
    Fetches,
    Identity,
    all_overlap,
    may_overlap,
    overlap,
    were_open_together,
)
from muster.gateway.attribution.fetchers import Fetchers
from muster.gateway.attribution.matching import pairs, viable
from muster.gateway.attribution.slot import LAG_MS, ClientKey, Observation, Slot
from muster.gateway.attribution.table import RegistrationTable
from muster.gateway.attribution.verdict import Evidence

SETTLED_MS = 2_000
"""How long after its first fetch a partition becomes evidence: registrations may arrive a little late."""
PATIENCE_MS = 5_000
"""The shortest time that bytes wait for better evidence before connections and groups are paired."""
_MAX_DOUBTS = 16
_MAX_MATCHED = 50
"""The most connections of one key that are compared with each other at a time."""
_MAX_SIDES = 50
"""How often such connections are compared in one :meth:`Identities.settle`."""
_MAX_CLAIMS = 20_000
"""About how many claims are compared with waiting connections in one :meth:`Identities.settle`."""
_WAIT_MS = 60_000
"""How long after its last Fetch a connection is still examined."""


_Options = dict[Fetches, tuple[tuple[int, list[Observation]], set[str]]]
"""The last :meth:`Identities._options`, and their basis: the version of candidates, and what was fetched."""


def pair_after_ms(pending_ms: int) -> int:
    """How long bytes wait before pairing, if they wait ``pending_ms`` at most."""
    return max(PATIENCE_MS, pending_ms // 2)


class Identities:
    """Finds, keeps and drops the identities of all :class:`Fetches`."""

    def __init__(self, table: RegistrationTable, fetchers: Fetchers, *, pair_after_ms: int = PATIENCE_MS) -> None:
        self._table = table
        self._fetchers = fetchers
        self._pair_after_ms = pair_after_ms
        self._waiting: dict[ClientKey, dict[Fetches, None]] = {}
        self._closed: dict[ClientKey, dict[Fetches, None]] = {}
        """Those whose connection was closed a short time ago."""
        self._guesses: dict[Fetches, None] = {}
        self._news: set[ClientKey] = set()
        self._successors: dict[Fetches, None] = {}
        """Those with a non-empty ``after``."""
        self._sides_left = 0
        self._open_options: _Options = {}
        """For :meth:`_pair`."""
        self._foreseen: _Options = {}
        """For :meth:`_match`, which looks at many at a time: computed one by one before."""

    def certain(self, fetches: Fetches, place: Place, group: str, at_ms: int) -> None:
        """Record that the partition was the group's by assignment alone, independent of the connection."""
        before = self._standing(fetches)
        if fetches.is_shared or (before is not None and before.group == group and not before.is_guess):
            return
        if before is not None and not before.is_guess:
            self.doubt(fetches, place, at_ms)
            return
        self._settle(fetches, Identity(group, Evidence.BINDING, (Observation(place, at_ms, at_ms),)))

    def commits(self, fetches: Fetches, group: str) -> None:
        """Record that a simple consumer of the group fetches on it; it is not known as another group's."""
        fetches.simple_of |= {group}
        seen = fetches.observations()
        over = frozenset(self._fitting(fetches, seen) - {group})
        self._settle(fetches, Identity(group, Evidence.OFFSET_CONTINUITY, tuple(seen), over))
        self.reconsider(fetches)

    def known(self, fetches: Fetches) -> str | None:
        """The group that it is known to belong to; None if there is none, or better evidence may replace it."""
        found = self._standing(fetches)
        return None if found is None or found.is_guess else found.group

    def same_connection(self, fetches: Fetches, place: Place, group: str, possible: set[str], at_ms: int) -> None:
        """Record that the group also sends its own requests on the connection."""
        if fetches.identity is None or fetches.identity.group != group:
            basis = (Observation(place, at_ms, at_ms),)
            self._settle(fetches, Identity(group, Evidence.SAME_CONNECTION, basis, frozenset(possible - {group})))

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
        """The group behind it, if known; None while there are doubts about it."""
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
        """Connections that fetched the same beside it are other clients, also after it is closed."""
        for fetches in connection.fetches.values():
            self._set_apart(fetches)
            if self._table.slot(*fetches.key) is not None:
                self._keep_closed(fetches)

    def wait(self, fetches: Fetches, at_ms: int) -> None:
        """Record that bytes wait for its identity."""
        if fetches.waiting_since_ms is None:
            fetches.waiting_since_ms = at_ms
        self._waiting.setdefault(fetches.key, {})[fetches] = None

    def settle(self) -> Steps[set[ClientKey]]:
        """Examine those with waiting bytes again, and pair those that nothing distinguishes. Returns keys with news.

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
        yield
        self._forget_closed()
        self._sides_left = _MAX_SIDES
        self._open_options.clear()
        self._foreseen.clear()
        for key, some in self._next().items():
            yield from self._settle_some(some)
            if not self._waiting[key]:
                del self._waiting[key]
        news, self._news = self._news, set()
        return news

    def _keep_closed(self, fetches: Fetches) -> None:
        closed = self._closed.setdefault(fetches.key, {})
        closed[fetches] = None
        if len(closed) > 2 * _MAX_MATCHED:
            del closed[next(iter(closed))]

    def _forget_closed(self) -> None:
        before_ms = self._fetchers.now_ms - _WAIT_MS
        for key, closed in list(self._closed.items()):
            while closed and (next(iter(closed)).closed_ms or 0) < before_ms:
                del closed[next(iter(closed))]
            if not closed:
                del self._closed[key]

    def _next(self) -> dict[ClientKey, list[Fetches]]:
        """Those to examine now, by key, the longest unexamined first.

        Where hundreds of groups share one key, it takes several rounds to examine all; bytes wait meanwhile.
        """
        turn: dict[ClientKey, list[Fetches]] = {}
        claims = 0
        for key, waiting in list(self._waiting.items()):
            slot = self._table.slot(*key)
            for fetches in list(waiting):
                if claims >= _MAX_CLAIMS:
                    return turn
                claims += len(fetches.places()) * (1 if slot is None else slot.count)
                waiting[fetches] = waiting.pop(fetches)
                turn.setdefault(key, []).append(fetches)
            self._waiting[key] = self._waiting.pop(key)
        return turn

    def _settle_some(self, some: Iterable[Fetches]) -> Steps[None]:
        for fetches in some:
            if self.of(fetches) is not None or self._fetchers.now_ms - fetches.last_active_ms > _WAIT_MS:
                self._wait_no_more(fetches)
            yield
        unknown = [fetches for fetches in some if fetches.identity is None and fetches.waiting_since_ms is not None]
        beside = yield from self._beside(unknown[:_MAX_MATCHED])
        for each in (*unknown, *beside)[:_MAX_MATCHED]:
            for seen in self._matched((each,)).values():
                self._options_known(self._foreseen, each, seen)
            yield
        self._match(each for each in (*unknown, *beside) if each.identity is None)
        visited: set[tuple[str, Place]] = set()
        for fetches in unknown:
            yield
            if fetches.identity is not None:
                self._wait_no_more(fetches)
                continue
            for place in fetches.places():
                if (fetches.principal, place) not in visited:
                    visited.add((fetches.principal, place))
                    self._pair(fetches, place)
            if not fetches.connection.is_open:
                self._pair_closed(fetches)

    def _beside(self, waiting: Iterable[Fetches]) -> Steps[list[Fetches]]:
        """Connections without an identity that fetch beside these, and for which no bytes wait: they show it, too."""
        found: dict[Fetches, None] = {}
        for each in waiting:
            for place in each.places():
                found |= {
                    other: None
                    for other in self._fetchers.beside(each, place)
                    if other.identity is None and other.waiting_since_ms is None and overlap(each, other, place)
                }
            if len(found) >= _MAX_MATCHED:
                break
        for other in found:
            self.of(other)
            yield
        return [other for other in found if other.identity is None]

    def _wait_no_more(self, fetches: Fetches) -> None:
        del self._waiting[fetches.key][fetches]
        fetches.waiting_since_ms = None

    def _set_apart(self, fetches: Fetches) -> None:
        """Rule out the group of this closed connection for all that fetched beside it, including closed ones."""
        if fetches.identity is None or fetches.identity.is_guess:
            return
        group = fetches.identity.group
        for place in fetches.known():
            for other in self._others(fetches, place):
                if overlap(fetches, other, place) and len(self._seats(other, place, group)) <= 1:
                    other.not_of.add(group)

    def _by_session(self, fetches: Fetches) -> Identity | None:
        """The identity if all that is fetched belongs to one group and to no other."""
        settled_ms = max(self._fetchers.now_ms - SETTLED_MS, self._table.heard_ms)
        seen = fetches.observations(begun_by_ms=settled_ms)
        fitting = self._fitting(fetches, seen)
        options = fitting - self._absent(fetches, fitting, seen)
        if len(options) != 1:
            return None
        return Identity(min(options), Evidence.SESSION, tuple(seen), frozenset(fitting - options))

    def _by_offsets(self, fetches: Fetches) -> Identity | None:
        """The identity if it alone began at offsets that clients of one group received, and of no other group."""
        seen = fetches.observations()
        fitting = self._fitting(fetches, seen)
        options = fitting - self._absent(fetches, fitting, seen)
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

    def _options(self, fetches: Fetches, seen: Sequence[Observation]) -> set[str]:
        """The groups that it may belong to, except those with another connection for what it fetches."""
        fitting = self._fitting(fetches, seen)
        held = {
            other.identity.group
            for place in (observation.place for observation in seen)
            for other in self._others(fetches, place)
            if other.identity is not None
            and not other.identity.is_guess
            and overlap(fetches, other, place)
            and self._has_one_seat(fetches, place, other.identity.group)
        }
        return fitting - held - self._absent(fetches, fitting, seen)

    def _options_known(self, known: _Options, fetches: Fetches, seen: list[Observation]) -> set[str]:
        """:meth:`_options`, computed once while nothing changes."""
        basis = (self._table.version(*fetches.key), seen)
        known_basis, options = known.get(fetches, ((-1, []), set[str]()))
        if known_basis != basis:
            options = self._options(fetches, seen)
            known[fetches] = (basis, options)
        return options

    def _others(self, fetches: Fetches, place: Place) -> Iterator[Fetches]:
        """Connections that fetch the partition beside it, and closed ones that did, if bytes still wait for them."""
        yield from self._fetchers.beside(fetches, place)
        for other in self._waiting.get(fetches.key, ()):
            is_other = other is not fetches and other.principal == fetches.principal
            if is_other and not other.connection.is_open and other.knows(place):
                yield other

    def _seats(self, fetches: Fetches, place: Place, group: str) -> dict[str, bool]:
        """The group's owners of the partition that this connection may belong to, and whether each is a member."""
        slot = self._table.slot(*fetches.key)
        claims = [] if slot is None else slot.owners(*place, fetches.last_ms(place), fetches.reader, group=group)
        return {claim.member_id: claim.of_member for claim in claims}

    def _has_one_seat(self, fetches: Fetches, place: Place, group: str) -> bool:
        """Whether one connection at a time fetches the partition for the group."""
        return list(self._seats(fetches, place, group).values()) == [True]

    def _with_one_seat(self, fetches: Fetches, place: Place) -> set[str]:
        """The groups for which :meth:`_has_one_seat` is true."""
        slot = self._table.slot(*fetches.key)
        seats: dict[str, dict[str, bool]] = {}
        for claim in [] if slot is None else slot.owners(*place, fetches.last_ms(place), fetches.reader):
            seats.setdefault(claim.group, {})[claim.member_id] = claim.of_member
        return {group for group, of_members in seats.items() if list(of_members.values()) == [True]}

    def _has_twin(self, fetches: Fetches, place: Place, offset: int) -> bool:
        return any(
            other.identity is None and other.first_offset(place) == offset and may_overlap(fetches, other, place)
            for other in self._fetchers.beside(fetches, place)
        )

    def _match(self, waiting: Iterable[Fetches]) -> None:
        """Identify each connection that has one possible group, given that connections side by side differ in group.

        It is enough to take the connections at the time when each one began: intervals that overlap pairwise all
        contain the begin of one of them.
        """
        seen = self._matched(waiting)
        options = {each: self._options_known(self._foreseen, each, these) for each, these in seen.items()}
        sides = self._sides(options)
        is_news = True
        while is_news:
            is_news = False
            for side in sides[: self._sides_left]:
                self._sides_left -= 1
                for each, left in (viable({each: options[each] for each in side}) or {}).items():
                    is_news |= left != options[each]
                    options[each] = left
        for each, left in options.items():
            waited_ms = self._fetchers.now_ms - max(each.first_ms(observation.place) for observation in seen[each])
            if len(left) == 1 and waited_ms >= SETTLED_MS and not self._is_taken(each, group := min(left)):
                over = frozenset(self._fitting(each, seen[each]) - left)
                self._settle(each, Identity(group, Evidence.ONE_TO_ONE, tuple(seen[each]), over))

    def _matched(self, waiting: Iterable[Fetches]) -> dict[Fetches, list[Observation]]:
        """Those that :meth:`_match` compares, and what they have fetched for long enough."""
        settled_ms = max(self._fetchers.now_ms - SETTLED_MS, self._table.heard_ms)
        some = [each for each in waiting if not each.is_shared][:_MAX_MATCHED]
        return {each: seen for each in some if (seen := each.observations(begun_by_ms=settled_ms))}

    def _sides(self, options: Mapping[Fetches, set[str]]) -> list[frozenset[Fetches]]:
        """Sets that fetched one partition at one time, where each of their groups has only one member that may."""
        at: dict[tuple[str, Place], list[Fetches]] = {}
        for each, groups in options.items():
            for place in each.places():
                if groups and groups <= self._with_one_seat(each, place):
                    at.setdefault((each.principal, place), []).append(each)
        sides: dict[frozenset[Fetches], None] = {}
        for (_, place), these in at.items():
            for began_ms in sorted({each.first_ms(place) for each in these}):
                side = frozenset(each for each in these if each.first_ms(place) <= began_ms < each.last_ms(place))
                if len(side) > 1:
                    sides[side] = None
        return list(sides)

    def _pair(self, fetches: Fetches, place: Place) -> None:
        """Pair connections and groups one to one if there are as many of both. The last one that is left is certain."""
        slot = self._table.slot(*fetches.key)
        now_ms = self._fetchers.now_ms
        here = self._fetchers.at(fetches, place)
        open_ = [each for each in here if self._standing(each) is None and not each.is_shared]
        if slot is None or not 0 < len(open_) <= _MAX_MATCHED or (len(here) > 1 and not all_overlap(here, place)):
            return
        held = {each.identity.group for each in here if each.identity is not None}
        waited_ms = now_ms - max(max(each.first_ms(place), each.waiting_since_ms or 0) for each in open_)
        can_eliminate = bool(held) and waited_ms >= SETTLED_MS
        can_pair = waited_ms >= self._pair_after_ms and _began_alike(open_)
        if not can_eliminate and not can_pair:
            return
        groups = {group for each in here for group in slot.possible(place, now_ms, each.reader)}
        if len(groups) < 2 or len(here) > len(groups) or not held <= groups:
            return
        options = [self._options_known(self._open_options, each, each.observations()) - held for each in open_]
        can_pair = can_pair and len(open_) == len(set().union(*options))
        lone = [(each, groups) for each, groups in zip(open_, options, strict=True) if len(groups) == 1]
        if can_eliminate and lone:
            for each, only in lone:
                self._guess(each, min(only))
        elif can_pair:
            for each, group in zip(open_, pairs(options) or (), strict=False):
                self._guess(each, group)

    def _pair_closed(self, fetches: Fetches) -> None:
        """Pair closed connections that were sent the same with as many groups: whose is whose changes no amount."""
        places = fetches.places()
        alike = [each for each in self._closed.get(fetches.key, ()) if self._is_alike(fetches, each, places)]
        if not 0 < len(alike) <= _MAX_MATCHED or not all(were_open_together(alike, place) for place in places):
            return
        if self._fetchers.now_ms - max(each.closed_ms or 0 for each in alike) < self._pair_after_ms:
            return
        beside = {
            other
            for place in places
            for other in self._fetchers.beside(fetches, place)
            if were_open_together((fetches, other), place)
        }
        if any(other.identity is None for other in beside):
            return
        held = {each.identity.group for each in (*alike, *beside) if each.identity is not None}
        open_ = [each for each in alike if each.identity is None]
        options = [self._options_known(self._open_options, each, each.observations()) - held for each in open_]
        if len(open_) == len(set().union(*options)):
            for each, group in zip(open_, pairs(options) or (), strict=False):
                self._guess(each, group)

    @staticmethod
    def _is_alike(one: Fetches, other: Fetches, places: Sequence[Place]) -> bool:
        """Whether both were sent the same of these partitions and fetched nothing else, and neither is shared."""
        return (
            not one.is_shared
            and other.principal == one.principal
            and not other.is_shared
            and set(other.places()) == set(places)
            and all(
                (one.first_offset(place), one.reached(place)) == (other.first_offset(place), other.reached(place))
                for place in places
            )
        )

    def _guess(self, fetches: Fetches, group: str) -> None:
        held = {other.identity.group for other in self._neighbours(fetches) if other.identity is not None}
        if group not in held:
            seen = fetches.observations()
            over = frozenset(self._fitting(fetches, seen) - {group})
            self._settle(fetches, Identity(group, Evidence.ONE_TO_ONE, tuple(seen), over, is_guess=True))
            self._guesses[fetches] = None

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

    def _standing(self, fetches: Fetches) -> Identity | None:
        """The identity, dropped if a rival appeared or it was contradicted."""
        identity = fetches.identity
        if identity is None:
            return None
        version = self._table.version(*fetches.key)
        if version != fetches.stood:
            rivals = self._fitting(fetches, identity.basis) - identity.over - {identity.group}
            if rivals - self._absent(fetches, rivals, identity.basis):
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

    def _fitting(self, fetches: Fetches, seen: Iterable[Observation]) -> set[str]:
        slot: Slot | None = self._table.slot(*fetches.key)
        return set() if slot is None else slot.fitting(seen, fetches.reader) - fetches.not_of - fetches.outside_of

    def _absent(self, fetches: Fetches, groups: set[str], seen: Iterable[Observation]) -> set[str]:
        slot = self._table.slot(*fetches.key)
        return set() if slot is None or not groups else slot.absent(groups, seen, fetches.reader)

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
        if not fetches.connection.is_open:
            self._set_apart(fetches)
        if is_news:
            self.reconsider(fetches)
        fetches.stood = self._table.version(*fetches.key)

    def _drop(self, fetches: Fetches) -> None:
        fetches.identity = None
        fetches.tried = None
        fetches.doubts.clear()
        self.reconsider(fetches)

    def reconsider(self, fetches: Fetches) -> None:
        """Have verdicts on that key given again: they may now be better."""
        self._table.touch(fetches.key)
        self._news.add(fetches.key)


def _began_alike(these: Iterable[Fetches]) -> bool:
    """Whether each partition was begun at the same offset, so that confusing them makes no large difference."""
    began: dict[Place, set[int]] = {}
    for each in these:
        for place in each.places():
            began.setdefault(place, set()).add(each.first_offset(place))
    return all(len(offsets) == 1 for offsets in began.values())
