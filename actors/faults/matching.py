"""Which requests a fault is for, and which of them it acts on. Pure: the same input gives the same result.

:class:`Facts` holds what a request names. Only the number of the match (from 1, counted over the cluster) and the
fault's ``when`` decide, so a run with the same seed and the same matches has the same faults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.actors.faults.fields import ALWAYS, ONCE, Nth, Probability
from muster.actors.faults.model import RequestFault

_WHOLE = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names in a request's body."""

    groups: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    """Member ids and group.instance.ids."""
    topics: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Partitions of each named topic; empty if the API names no partitions."""
    offsets_partitions: frozenset[int] = frozenset()
    """Partitions of __consumer_offsets of the named groups."""


def may_match(fault: RequestFault, *, gateway: int, api: str, client_id: str | None) -> bool:
    """Whether the fault may be for the request, as far as is known without reading its body."""
    return fault.gateway in (None, gateway) and fault.api in (None, api) and fault.client_id in (None, client_id)


def needs_facts(fault: RequestFault) -> bool:
    """Whether the request's body has to be read to decide."""
    return any(scope is not None for scope in (fault.group, fault.member, fault.topic, fault.partition))


def matches(fault: RequestFault, facts: Facts) -> bool:
    """Whether the fault is for a request with this body; of several groups or topics, one match is enough."""
    return (
        (fault.group is None or fault.group in facts.groups)
        and (fault.member is None or fault.member in facts.members)
        and (fault.topic is None or fault.topic in facts.topics)
        and (fault.partition is None or _names_partition(fault, fault.partition, facts))
    )


def _names_partition(fault: RequestFault, partition: int, facts: Facts) -> bool:
    if fault.topic is None:
        return partition in facts.offsets_partitions
    return partition in facts.topics[fault.topic]


def fires(fault: RequestFault, match: int) -> bool:
    """Whether the fault acts on the ``match``-th matching request, counted from 1."""
    when = fault.when
    if when == ALWAYS:
        return True
    if when == ONCE:
        return match == 1
    if isinstance(when, Nth):
        return match == when.nth
    assert isinstance(when, Probability)
    return drawn(when.seed, match) < when.probability * _WHOLE


def drawn(seed: int, number: int) -> int:
    """Return a pseudo-random number below 2**64, always the same for the same seed and number."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest(), "big")


def is_spent(fault: RequestFault, match: int) -> bool:
    """Whether no later match can make the fault act again."""
    when = fault.when
    if when == ONCE:
        return match >= 1
    return isinstance(when, Nth) and match >= when.nth
