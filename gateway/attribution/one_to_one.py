"""Which connection is whose, where only their number shows it: the other connections belong to the other groups.

In a group with one member that owns a partition, one connection at a time fetches it. So of connections that fetch it
side by side each belongs to a different group: what is left for the others is not left for this one (:meth:`_match`).
Where nothing distinguishes as many connections as groups, they are paired, since each group gets one stream of the
same partitions then; that is a guess, which better evidence replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from muster.actors.wire.kafka.steps import Steps
from muster.gateway.attribution.claims import Place
from muster.gateway.attribution.connection import (
    ConnectionState,
    Fetches,
    Identity,
    all_overlap,
    overlap,
    were_open_together,
)
from muster.gateway.attribution.fetchers import Fetchers
from muster.gateway.attribution.identity import PATIENCE_MS, SETTLED_MS, Identities
from muster.gateway.attribution.matching import pairs, viable
from muster.gateway.attribution.slot import ClientKey, Observation
from muster.gateway.attribution.table import RegistrationTable
from muster.gateway.attribution.verdict import Evidence

_MAX_MATCHED = 50
"""The most connections of one key that are compared with each other at a time."""
_MAX_SIDES = 50
"""How often such connections are compared in one :meth:`OneToOne.settle`."""
_MAX_CLAIMS = 20_000
"""About how many claims are compared with waiting connections in one :meth:`OneToOne.settle`."""
_WAIT_MS = 60_000
"""How long after its last Fetch a connection is still examined."""

_Options = dict[Fetches, tuple[tuple[int, list[Observation]], set[str]]]
"""The last :meth:`OneToOne._options`, and their basis: the version of candidates, and what was fetched."""


def pair_after_ms(pending_ms: int) -> int:
    """How long bytes wait before pairing, if they wait ``pending_ms`` at most."""
    return max(PATIENCE_MS, pending_ms // 2)


class OneToOne:
    """Examines the connections for whose identity bytes wait, beside each other."""

    def __init__(
        self, table: RegistrationTable, fetchers: Fetchers, identities: Identities, *, pair_after_ms: int = PATIENCE_MS
    ) -> None:
        self._table = table
        self._fetchers = fetchers
        self._identities = identities
        self._pair_after_ms = pair_after_ms
        self._closed: dict[ClientKey, dict[Fetches, None]] = {}
        """Fetches on connections that were closed a short time ago."""
        self._sides_left = 0
        self._open_options: _Options = {}
        """For :meth:`_pair`."""
        self._foreseen: _Options = {}
        """For :meth:`_match`, which looks at many at a time: computed one by one before."""

    def closed(self, connection: ConnectionState) -> None:
        """Remember what it fetched for as long as bytes may wait."""
        for fetches in connection.fetches.values():
            if self._table.slot(*fetches.key) is not None:
                self._keep_closed(fetches)

    def settle(self) -> Steps[None]:
        """Examine those with waiting bytes again, and pair those that nothing distinguishes.

        Only one may be under way. Everything else may happen between its steps.
        """
        self._forget_closed()
        self._sides_left = _MAX_SIDES
        self._open_options.clear()
        self._foreseen.clear()
        waiting = self._identities.waiting
        for key, some in self._next().items():
            yield from self._settle_some(some)
            if not waiting[key]:
                del waiting[key]

    def _next(self) -> dict[ClientKey, list[Fetches]]:
        """Return the fetches to examine now, by key, the longest unexamined first.

        Where hundreds of groups share one key, it takes several rounds to examine all; bytes wait meanwhile.
        """
        turn: dict[ClientKey, list[Fetches]] = {}
        claims = 0
        for key, waiting in list(self._identities.waiting.items()):
            slot = self._table.slot(*key)
            for fetches in list(waiting):
                if claims >= _MAX_CLAIMS:
                    return turn
                claims += len(fetches.places()) * (1 if slot is None else slot.count)
                waiting[fetches] = waiting.pop(fetches)
                turn.setdefault(key, []).append(fetches)
            self._identities.waiting[key] = self._identities.waiting.pop(key)
        return turn

    def _settle_some(self, some: Iterable[Fetches]) -> Steps[None]:
        for fetches in some:
            if self._identities.of(fetches) is not None or self._fetchers.now_ms - fetches.last_active_ms > _WAIT_MS:
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
        """Return connections without identity and waiting bytes that fetch beside these: they show it, too."""
        found: dict[Fetches, None] = {}
        for each in waiting:
            yield
            for place in each.places():
                found |= {
                    other: None
                    for other in self._fetchers.beside(each, place)
                    if other.identity is None and other.waiting_since_ms is None and overlap(each, other, place)
                }
            if len(found) >= _MAX_MATCHED:
                break
        for other in found:
            self._identities.of(other)
            yield
        return [other for other in found if other.identity is None]

    def _wait_no_more(self, fetches: Fetches) -> None:
        del self._identities.waiting[fetches.key][fetches]
        fetches.waiting_since_ms = None

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
            if len(left) == 1 and waited_ms >= SETTLED_MS and not self._identities.is_taken(each, group := min(left)):
                over = frozenset(self._identities.fitting(each, seen[each]) - left)
                self._identities.identify(each, Identity(group, Evidence.ONE_TO_ONE, tuple(seen[each]), over))

    def _matched(self, waiting: Iterable[Fetches]) -> dict[Fetches, list[Observation]]:
        """Return the fetches that :meth:`_match` compares, and what they have fetched for long enough."""
        settled_ms = max(self._fetchers.now_ms - SETTLED_MS, self._table.heard_ms)
        some = [each for each in waiting if not each.is_shared][:_MAX_MATCHED]
        return {each: seen for each in some if (seen := each.observations(begun_by_ms=settled_ms))}

    def _sides(self, options: Mapping[Fetches, set[str]]) -> list[frozenset[Fetches]]:
        """Return sets that fetched one partition at one time, if each of their groups has only one member that may."""
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
        open_ = [each for each in here if self._identities.standing(each) is None and not each.is_shared]
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
        held = {other.identity.group for other in self._identities.neighbours(fetches) if other.identity is not None}
        if group not in held:
            seen = fetches.observations()
            over = frozenset(self._identities.fitting(fetches, seen) - {group})
            self._identities.identify(fetches, Identity(group, Evidence.ONE_TO_ONE, tuple(seen), over, is_guess=True))

    def _options(self, fetches: Fetches, seen: Sequence[Observation]) -> set[str]:
        """Return the groups that it may belong to, except those with another connection for what it fetches."""
        fitting = self._identities.fitting(fetches, seen)
        held = {
            other.identity.group
            for place in (observation.place for observation in seen)
            for other in self._identities.others(fetches, place)
            if other.identity is not None
            and not other.identity.is_guess
            and overlap(fetches, other, place)
            and self._has_one_seat(fetches, place, other.identity.group)
        }
        return fitting - held - self._identities.absent(fetches, fitting, seen)

    def _options_known(self, known: _Options, fetches: Fetches, seen: list[Observation]) -> set[str]:
        """:meth:`_options`, computed once while nothing changes."""
        basis = (self._table.version(*fetches.key), seen)
        known_basis, options = known.get(fetches, ((-1, []), set[str]()))
        if known_basis != basis:
            options = self._options(fetches, seen)
            known[fetches] = (basis, options)
        return options

    def _has_one_seat(self, fetches: Fetches, place: Place, group: str) -> bool:
        """Whether one connection at a time fetches the partition for the group."""
        return list(self._identities.seats(fetches, place, group).values()) == [True]

    def _with_one_seat(self, fetches: Fetches, place: Place) -> set[str]:
        """Return the groups for which :meth:`_has_one_seat` is true."""
        slot = self._table.slot(*fetches.key)
        seats: dict[str, dict[str, bool]] = {}
        for claim in [] if slot is None else slot.owners(*place, fetches.last_ms(place), fetches.reader):
            seats.setdefault(claim.group, {})[claim.member_id] = claim.of_member
        return {group for group, of_members in seats.items() if list(of_members.values()) == [True]}

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


def _began_alike(these: Iterable[Fetches]) -> bool:
    """Whether each partition was begun at the same offset, so that confusing them makes no large difference."""
    began: dict[Place, set[int]] = {}
    for each in these:
        for place in each.places():
            began.setdefault(place, set()).add(each.first_offset(place))
    return all(len(offsets) == 1 for offsets in began.values())
