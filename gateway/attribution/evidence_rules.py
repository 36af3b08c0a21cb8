"""The evidence rules: which group a fetched partition belongs to, or why that is unknown.

No version of the Fetch request names a group (apache/kafka FetchRequest.json). The evidence is the coordinators'
registrations and responses, what the connection has sent, and the partition itself. Rules are tried strongest first.
Each requires the group to be *possible*: one of its members with this principal, host and client id owns the
partition, or owned it within the grace time (a Fetch may be answered after the reassignment, F31), or has an unknown
assignment; and had not left before this connection was opened (F16). A wrong label is worse than none: what remains
possible for two groups is left open.

1. **same connection**: this connection carried group requests of exactly one group and one client id, and that
   group is possible. Exact, but only clients that share one connection for both (sarama) ever show it.
2. **unique candidate**: all candidates of the (principal, host, client id) are of one group, and it is possible. A lone
   candidate that is known not to own the partition is a contradiction, not a match (F3, F16, F20). So are more
   connections than the group has owners (:mod:`muster.gateway.attribution.non_members`): a reader that is no member.
3. **assignment**: of several groups (F4, F5: ``rdkafka`` is every librdkafka client's default id) one owns the
   partition, and no other one is possible.

Where several are possible, the connection decides (:mod:`muster.gateway.attribution.identity`), as it has one client:

4. **binding**: what it fetched before certainly belonged to one group, by rule 2 or 3, and to no other. A registration
   that arrives up to LAG_MS after the bytes counts as having existed then; one from a snapshot, as having always
   existed.
5. **session**: one member owns everything the connection has fetched lately, and no member of another group owns any
   of it; or did when the connection began; or is the only one still present (``Slot.absent``).
6. **offset_continuity**: it began to fetch at the committed offset that a client of one group received (OffsetFetch),
   or where its stream ended before the gateway restarted, if the ends of all other streams are known. No other group
   matches, and no other connection began there. For consumers without membership: it alone was sent what they have
   committed (:mod:`muster.gateway.attribution.simple_consumers`); they are possible nowhere else.
7. **one_to_one**: the other connections certainly belong to the other groups; or as many connections as groups remain
   that nothing distinguishes, and they are paired. If a pair is wrong, each group still gets one stream of the same
   partition, and totals differ by no more than the distance between the positions.

Nothing is certain until it is known that no registration is on its way (``RegistrationTable.may_hear_of``): a moment.

Bytes that have waited without any candidate may still get **assignment** (a member on the other address family, F17)
or **derived** (:mod:`muster.gateway.attribution.hints`). F numbers are explained in docs/attribution.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.actors.wire.kafka.steps import Steps
from muster.gateway.attribution.claims import Claim, Place, Reader
from muster.gateway.attribution.connection import ConnectionState, Fetches
from muster.gateway.attribution.fetchers import Fetchers
from muster.gateway.attribution.hints import derived, other_family
from muster.gateway.attribution.identity import PATIENCE_MS, Identities
from muster.gateway.attribution.non_members import NonMembers
from muster.gateway.attribution.one_to_one import OneToOne
from muster.gateway.attribution.simple_consumers import SimpleConsumers
from muster.gateway.attribution.slot import LAG_MS, ClientKey
from muster.gateway.attribution.table import GRACE_MS, MEMORY_MS, RegistrationTable
from muster.gateway.attribution.verdict import Evidence, Reason, Verdict
from muster.placement.mapping.registration import SimpleCommit

INTERNAL_PREFIX = "__muster_"
"""The prefix of the client ids of Muster's own readers (F33)."""
_NO_GROUP = Verdict.none(Reason.NO_GROUP)
_AMBIGUOUS = Verdict.none(Reason.AMBIGUOUS)
_UNKNOWN = Verdict.none(Reason.UNKNOWN)
_NOT_MEMBER = Verdict.none(Reason.NOT_MEMBER)
_INTERNAL = Verdict.none(Reason.INTERNAL)


class EvidenceRules:
    """Applies the rules to registrations and connections."""

    def __init__(
        self, table: RegistrationTable, *, memory_ms: int = GRACE_MS + MEMORY_MS, pair_after_ms: int = PATIENCE_MS
    ) -> None:
        self.fetchers = Fetchers()
        self.may_read: Callable[[str, str, str], bool] = lambda principal, host, group: True
        """Whether the client may consume for a group: what it says of itself is no evidence of any other."""
        self._memory_ms = memory_ms
        self._table = table
        self._identities = Identities(table, self.fetchers)
        self._one_to_one = OneToOne(table, self.fetchers, self._identities, pair_after_ms=pair_after_ms)
        self._non_members = NonMembers(table, self.fetchers, self._identities)
        self._simple_consumers = SimpleConsumers(self.fetchers, self._identities)
        self._unheard: set[ClientKey] = set()
        """Keys whose bytes wait for registrations that may be on their way."""

    def judge(
        self, connection: ConnectionState, host: str, client_id: str | None, topic: str, partition: int, at_ms: int
    ) -> Verdict:
        """Attribute bytes of the partition that were sent on the connection at ``at_ms``.

        ``at_ms`` may lie in the past, as far back as the table remembers: grace times are taken at ``at_ms``, and
        registrations that arrived later count if they may have begun before it (``Tenure.first_ms``).
        """
        if client_id is not None and client_id.startswith(INTERNAL_PREFIX):
            return _INTERNAL
        slot = self._table.slot(host, client_id)
        if slot is None:
            return _NO_GROUP
        place, fetches = (topic, partition), self.fetchers.of(connection, host, client_id)
        by = fetches.reader
        owners = slot.owners(topic, partition, at_ms, by)
        opaque = slot.opaque(at_ms, by)
        possible = {claim.group for claim in owners}
        possible.update(claim.group for claim in opaque)

        seen = connection.group_of(client_id)
        if seen is not None and seen not in possible:  # it may have fetched a moment before it joined
            possible.update(slot.possible(place, at_ms + LAG_MS, by) & {seen})
        if seen is not None and seen not in possible and slot.commits(seen, at_ms + LAG_MS, by):
            possible.add(seen)
        if seen is not None and seen in possible:
            self._identities.same_connection(fetches, place, seen, possible, at_ms)
            return Verdict.of(seen, _member_of(seen, owners, opaque), Evidence.SAME_CONNECTION)
        if len(possible) > 1:
            identity = self._identities.of(fetches)
            if identity is not None and identity.group in possible:
                return Verdict.of(identity.group, _member_of(identity.group, owners, opaque), identity.evidence)
            self._identities.doubt(fetches, place, at_ms)
            self._identities.wait(fetches, at_ms)
            return _AMBIGUOUS
        if not possible and not slot.has_other(None, at_ms, by):
            return _NO_GROUP
        group = next(iter(possible), None)
        is_alone = group is not None and not slot.has_other(group, at_ms, by)
        if group is None or not (owners or is_alone):
            self._identities.doubt(fetches, place, at_ms)
            return _UNKNOWN
        if fetches.identity is None and fetches.knows(place) and self._may_hear_of(fetches, place):
            return _UNKNOWN
        if not owners and self._may_sync(opaque):
            self._unheard.add(fetches.key)
            return _UNKNOWN
        anybody = Reader(connection.principal)
        of_all = slot.owners(topic, partition, at_ms, anybody), slot.opaque(at_ms, anybody)
        if not self._non_members.admits(fetches, place, group, *of_all):
            return _NOT_MEMBER if group in fetches.outside_of else _UNKNOWN
        self._identities.certain(fetches, place, group, at_ms)
        evidence = Evidence.UNIQUE_CANDIDATE if is_alone else Evidence.ASSIGNMENT
        if owners and not any(claim.of_member for claim in owners):
            evidence = Evidence.OFFSET_CONTINUITY
        return Verdict.of(group, _member_of(group, owners, opaque), evidence)

    @property
    def comparisons(self) -> int:
        """How many claims all verdicts so far have been compared with: a measure of the time that they took."""
        return self._table.comparisons.count

    def last_word(
        self,
        connection: ConnectionState,
        host: str,
        client_id: str | None,
        topic: str,
        partition: int,
        at_ms: int,
        now_ms: int,
    ) -> Verdict:
        """Like :meth:`judge`, for bytes that wait no longer: if there is no candidate, hints count."""
        verdict = self.judge(connection, host, client_id, topic, partition, at_ms)
        if verdict.reason is not Reason.NO_GROUP or now_ms - at_ms < PATIENCE_MS:
            return verdict
        fetches = self.fetchers.of(connection, host, client_id)
        return (
            other_family(self._table, self.fetchers, fetches, (topic, partition), at_ms)
            or self._derived(connection.principal, host, client_id)
            or verdict
        )

    def _derived(self, principal: str, host: str, client_id: str | None) -> Verdict | None:
        hint = derived(self._table, principal, client_id)
        if hint is None or hint.group is None or not self.may_read(principal, host, hint.group):
            return None
        return hint

    def committed(self, commit: SimpleCommit, now_ms: int) -> set[ClientKey]:
        """Apply a simple consumer's commit. Returns the keys that changed."""
        self.fetchers.tick(now_ms)
        self._simple_consumers.committed(commit)
        return {(commit.host, commit.client_id)}

    def closed(self, connection: ConnectionState) -> None:
        """Record that the connection is closed; bytes that were sent on it may still wait for evidence."""
        self._non_members.closed(connection)
        self._identities.closed(connection)
        self._one_to_one.closed(connection)
        self.fetchers.closed(connection)

    def settle(self, now_ms: int) -> Steps[set[ClientKey]]:
        """Judge connections again, given what they have done since. Returns the keys that changed. Call each second."""
        self.fetchers.tick(now_ms)
        self.fetchers.prune(now_ms - self._memory_ms)
        self._non_members.settle()
        yield from self._identities.review()
        yield from self._one_to_one.settle()
        return self._identities.news() | self.heard()

    def heard(self) -> set[ClientKey]:
        """Judge again what waited for registrations. Returns the keys."""
        unheard, self._unheard = self._unheard, set()
        for key in unheard:
            self._table.touch(key)
        return unheard

    def _may_hear_of(self, fetches: Fetches, place: Place) -> bool:
        """Whether another group, not known yet, may have been assigned the partition before the connection began."""
        may_hear = self._table.may_hear_of(fetches.first_ms(place), self.fetchers.now_ms)
        if may_hear:
            self._unheard.add(fetches.key)
        return may_hear

    def _may_sync(self, opaque: Sequence[Claim]) -> bool:
        """Whether one of these members has joined so recently that it may not know its own assignment yet."""
        return any(self.fetchers.now_ms - claim.since_ms < PATIENCE_MS for claim in opaque)


def _member_of(group: str, owners: list[Claim], opaque: list[Claim]) -> str | None:
    """Return the only member of the group that owns the partition; if there is none, the only one that may own it."""
    members = {claim.member_id for claim in owners if claim.group == group}
    if not members:
        members = {claim.member_id for claim in opaque if claim.group == group}
    return members.pop() if len(members) == 1 else None
