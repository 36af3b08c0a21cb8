"""The ladder of evidence: which group a fetched partition belongs to, or why nobody can say.

A Fetch request names no group in any version (apache/kafka FetchRequest.json). What there is: the coordinators'
registrations, what the connection has shown, and the partition itself. The rungs are tried strongest first; each
one needs the group to be *possible*: one of its members with this principal, host and client id owns the partition,
or owned it until a grace time ago (a Fetch may be answered after the reassignment, F31), or has an assignment that is
not known. A wrong label is worse than none, so whatever is possible for two groups is left open.

1. **same connection**: this connection carried group requests of exactly one group and one client id, and that
   group is possible. Exact, but only clients that share one connection for both (sarama) ever show it.
2. **unique candidate**: all candidates of the (host, client id) are of one group, and it is possible. A lone
   candidate that is known not to own the partition is a contradiction, not a match (F3, F16, F20).
3. **assignment**: of several groups (F4, F5: ``rdkafka`` is every librdkafka client's default id) one owns the
   partition, and no other one is possible.
4. **binding**: several groups are possible, but this connection was certainly one's before the others came: a
   client does not change its group on a live connection. Others count as having come before when they were first
   heard of less than LAG_MS after the binding, since a registration may reach us later than the first
   Fetch, or when they came with a snapshot, which does not say since when.

F numbers: the failure modes of KoP's ``/client_group_id`` mapping (docs, attribution). The rungs of the full design
that look at the whole fetch session and at offset continuity are not here.
"""

from __future__ import annotations

from gateway.attribution.connection import ConnectionState
from gateway.attribution.slot import LAG_MS, Claim
from gateway.attribution.table import RegistrationTable
from gateway.attribution.verdict import Evidence, Reason, Verdict

_NO_GROUP = Verdict.none(Reason.NO_GROUP)
_AMBIGUOUS = Verdict.none(Reason.AMBIGUOUS)
_UNKNOWN = Verdict.none(Reason.UNKNOWN)


def attribute(
    table: RegistrationTable,
    connection: ConnectionState,
    host: str,
    client_id: str | None,
    topic: str,
    partition: int,
    fetch_offset: int,
    at_ms: int,
) -> Verdict:
    """Whose are bytes of that partition that were sent on that connection at ``at_ms``? Changes nothing.

    ``at_ms`` may lie in the past, as far back as the table remembers: what was in its grace time then is so now, and
    what was heard of later counts if it may have begun before (``Tenure.first_ms``). ``fetch_offset`` decides nothing
    yet; it is for offset continuity.
    """
    slot = table.slot(host, client_id)
    principal = connection.principal
    groups = slot.groups(at_ms, principal) if slot is not None else None
    if slot is None or not groups:
        return _NO_GROUP
    owners = slot.owners(topic, partition, at_ms, principal)
    opaque = slot.opaque(at_ms, principal)
    possible = {claim.group for claim in owners}
    possible.update(claim.group for claim in opaque)

    seen = connection.group_of(client_id)
    if seen is not None and seen in possible:
        return Verdict.of(seen, _member_of(seen, owners, opaque), Evidence.SAME_CONNECTION)
    if len(groups) == 1:
        [group] = groups
        if group not in possible:
            return _UNKNOWN
        return Verdict.of(group, _member_of(group, owners, opaque), Evidence.UNIQUE_CANDIDATE)
    if len(possible) == 1 and owners:
        [group] = possible
        return Verdict.of(group, _member_of(group, owners, opaque), Evidence.ASSIGNMENT)
    if len(possible) > 1:
        return _bound(connection, client_id, topic, partition, owners, opaque)
    return _UNKNOWN


def _bound(
    connection: ConnectionState,
    client_id: str | None,
    topic: str,
    partition: int,
    owners: list[Claim],
    opaque: list[Claim],
) -> Verdict:
    binding = connection.binding_of(client_id, topic, partition)
    claims = (*owners, *opaque)
    if binding is None or all(claim.group != binding.group for claim in claims):
        return _AMBIGUOUS
    rivals_since_ms = min(claim.since_ms for claim in claims if claim.group != binding.group)
    if binding.since_ms + LAG_MS > rivals_since_ms:
        return _AMBIGUOUS
    return Verdict.of(binding.group, binding.member_id, Evidence.BINDING)


def _member_of(group: str, owners: list[Claim], opaque: list[Claim]) -> str | None:
    """The only member of the group that owns the partition; if none does, the only one that may."""
    members = {claim.member_id for claim in owners if claim.group == group}
    if not members:
        members = {claim.member_id for claim in opaque if claim.group == group}
    return members.pop() if len(members) == 1 else None
