"""Hints for bytes that no registration matches after the wait. They never override evidence."""

from __future__ import annotations

import re

from muster.gateway.attribution.claims import Place
from muster.gateway.attribution.connection import Fetches
from muster.gateway.attribution.fetchers import Fetchers
from muster.gateway.attribution.table import RegistrationTable
from muster.gateway.attribution.verdict import Evidence, Verdict

MAX_GROUP_CHARS = 200
MAX_HOSTS = 64
"""A client id that more hosts use is taken as a default, which is no evidence."""
_JAVA_DEFAULT = re.compile(r"consumer-(.+)-[1-9]\d{0,8}", re.DOTALL)


def derived(table: RegistrationTable, principal: str, client_id: str | None) -> Verdict | None:
    """Return the group in the Java consumer's default client id, ``consumer-<group.id>-<n>`` (KAFKA-9033, Kafka 2.4).

    For consumers that assign() and never commit, beside other clients of their group (F13, F32). A group without any
    client that a coordinator knows may not exist: Spark's Kafka source makes up a group id for each query. Not used
    either: a group that is registered for other principals only (F23), and an unprintable name.
    """
    match = _JAVA_DEFAULT.fullmatch(client_id or "")
    if match is None:
        return None
    group = match[1]
    if len(group) > MAX_GROUP_CHARS or not group.isprintable():
        return None
    if not table.may_be_of(group, principal):
        return None
    return Verdict.of(group, None, Evidence.DERIVED)


def other_family(
    table: RegistrationTable, fetchers: Fetchers, fetches: Fetches, place: Place, at_ms: int
) -> Verdict | None:
    """Return the member that uses IPv4 to its coordinator and IPv6 to this gateway, or vice versa (F17).

    All of this must hold: exactly one member with that principal and client id on a host of the other family owns the
    partition; it owns all that this connection fetches; no client fetched the partition from that host meanwhile; no
    other connection fetches it under this key.
    """
    host, client_id = fetches.key
    others = [other for other in table.hosts(client_id) if (":" in other) != (":" in host)]
    if len(others) > MAX_HOSTS or len(fetchers.at(fetches, place)) > 1:
        return None
    found = {}
    for other in others:
        slot = table.slot(other, client_id)
        if slot is None:
            continue
        if slot.opaque(at_ms, fetches.reader):
            return None
        for claim in slot.owners(*place, at_ms, fetches.reader):
            found[claim.group, claim.member_id] = (other, slot)
    if len(found) != 1:
        return None
    [((group, member_id), (other, slot))] = found.items()
    seen = fetches.observations()
    if fetchers.was_fetched((other, client_id), fetches.principal, place, at_ms):
        return None
    if group not in slot.fitting(seen, fetches.reader):
        return None
    return Verdict.of(group, member_id, Evidence.ASSIGNMENT)
