"""Non-members that fetch beside a group's member: more connections than the group has owners of the partition.

A reader without a group, or of a group that no coordinator knows yet, often has its library's default client id (F5,
F13). On the same host as a member of a group it looks like that member, with one difference: in a group a partition
has one owner, and a client fetches it over one connection. So of the connections that keep fetching it side by side,
no more belong to the group than it has owners. Those that do are, strongest first:

* those that began at the committed offset that a client of the group received (OffsetFetch);
* those that have been known as the group's for a while, and were alone then; the longest known first;
* those that began when the group owned it, or may have;
* those that began closest to the time from which the group owned it: a member fetches as soon as it is assigned.

The others are outsiders for the life of their connections. Where none of that distinguishes them, as in a gateway that
has just started and has registrations from a snapshot, no connection gets the label while there are several. Groups
whose members may own anything (not synced yet) or that have simple consumers are exempt: several may read the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.gateway.attribution.claims import Claim, Place
from muster.gateway.attribution.connection import ConnectionState, Fetches, may_overlap, overlap
from muster.gateway.attribution.fetchers import Fetchers
from muster.gateway.attribution.identity import PATIENCE_MS, Identities
from muster.gateway.attribution.slot import ClientKey
from muster.gateway.attribution.table import RegistrationTable
from muster.gateway.attribution.verdict import Evidence

_UNDECIDED_MS = 2 * PATIENCE_MS
"""How long it may take until it is clear which of several connections is the member's."""


class NonMembers:
    """Keeps outsiders from the labels of a group that is otherwise certain."""

    def __init__(self, table: RegistrationTable, fetchers: Fetchers, identities: Identities) -> None:
        self._table = table
        self._fetchers = fetchers
        self._identities = identities
        self._watched: dict[Fetches, int] = {}
        """Undecided connections, and until when to examine them again."""
        self._departed: dict[tuple[ClientKey, Place], dict[Fetches, int]] = {}
        """Connections that are closed, by what they fetched, and until when they count."""

    def admits(
        self, fetches: Fetches, place: Place, group: str, owners: Sequence[Claim], opaque: Sequence[Claim]
    ) -> bool:
        """Whether the connection may be the group's; if not, it is an outsider, or undecided.

        ``owners`` and ``opaque``: the claims on the partition that hold, some of them the group's.
        """
        if not fetches.knows(place):
            return True
        if group in fetches.outside_of:
            return self._received_offset(fetches, place, group)
        owners = [claim for claim in owners if claim.group == group]
        anything = [claim for claim in opaque if claim.group == group]
        if not all(claim.of_member for claim in owners):
            return True
        if self._came_before(fetches, place, owners, anything):
            self._watch(fetches)
            return False
        if anything:
            return True
        return self._has_seat(fetches, place, group, owners)

    def settle(self) -> None:
        """Judge again what is undecided."""
        for fetches, until_ms in list(self._watched.items()):
            if self._fetchers.now_ms > until_ms:
                del self._watched[fetches]
            self._identities.reconsider(fetches)
        for where, departed in list(self._departed.items()):
            for fetches in [each for each, until_ms in departed.items() if self._fetchers.now_ms > until_ms]:
                del departed[fetches]
            if not departed:
                del self._departed[where]

    def closed(self, connection: ConnectionState) -> None:
        """Remember what it fetched beside others for as long as these may be undecided."""
        until_ms = self._fetchers.now_ms + _UNDECIDED_MS
        for fetches in connection.fetches.values():
            for place in fetches.known():
                self._departed.setdefault((fetches.key, place), {})[fetches] = until_ms

    def _came_before(self, fetches: Fetches, place: Place, owners: Sequence[Claim], anything: Sequence[Claim]) -> bool:
        """Return whether it began before any member could, and the partition's owner may not have begun yet."""
        if fetches.first_ms(place) >= min(claim.first_ms for claim in (*owners, *anything)):
            return False
        return not owners or self._fetchers.now_ms - max(claim.since_ms for claim in owners) < PATIENCE_MS

    def _has_seat(self, fetches: Fetches, place: Place, group: str, owners: Sequence[Claim]) -> bool:
        seats = len({claim.member_id for claim in owners})
        non_members = [
            other
            for other in self._fetchers.beside(fetches, place)
            if group not in other.outside_of and may_overlap(fetches, other, place)
        ]
        non_members += [
            other
            for other in self._departed.get((fetches.key, place), ())
            if other.principal == fetches.principal
            and other is not fetches
            and group not in other.outside_of
            and overlap(fetches, other, place)
        ]
        if len(non_members) < seats:
            return True
        now_ms = self._fetchers.now_ms
        if any(self._table.may_hear_of(each.first_ms(place), now_ms) for each in non_members):
            self._watch(fetches)  # a group of one of them may become known in a moment
            return False
        ranks = {each: self._rank(each, place, group, owners) for each in (fetches, *non_members)}
        ranked = sorted(ranks, key=ranks.__getitem__)
        seated, others = ranked[:seats], ranked[seats:]
        if ranks[seated[-1]] == ranks[others[0]]:
            for each in ranked:
                self._identities.give_up(each, group)
            self._watch(fetches)
            return False
        for other in others:
            if all(overlap(other, one, place) for one in seated):
                self._identities.put_out(other, group)
            else:
                self._watch(other)  # it may be a member's new connection while the old one is not closed yet
        return fetches in seated

    def _rank(
        self, fetches: Fetches, place: Place, group: str, owners: Sequence[Claim]
    ) -> tuple[bool, bool, bool, int]:
        """Ascending: the strongest evidence that the connection is the group's comes first."""
        identity = fetches.identity
        is_known = identity is not None and identity.group == group
        has_stood = is_known and self._fetchers.now_ms - fetches.identified_ms >= PATIENCE_MS
        shows_it = identity is not None and is_known and identity.evidence is Evidence.SAME_CONNECTION
        began_ms = fetches.first_ms(place)
        distance_ms = min((abs(began_ms - claim.since_ms) for claim in owners if claim.since_ms), default=0)
        return (
            not (shows_it or self._received_offset(fetches, place, group)),
            not has_stood,
            not has_stood and began_ms < min(claim.first_ms for claim in owners),
            fetches.identified_ms if has_stood else distance_ms,
        )

    def _received_offset(self, fetches: Fetches, place: Place, group: str) -> bool:
        offset, first_ms = fetches.first_offset(place), fetches.first_ms(place)
        return group in self._table.positions.groups_at(fetches.key, place, offset, first_ms, fetches.principal)

    def _watch(self, fetches: Fetches) -> None:
        self._watched.setdefault(fetches, self._fetchers.now_ms + _UNDECIDED_MS)
