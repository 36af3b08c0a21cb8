"""Who fetches for which group, as the group's coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    MEMBER = "member"
    """A member of the group; comes and goes with its membership."""
    SIMPLE = "simple"
    """A consumer that assigns partitions itself and was seen to commit or fetch offsets; ages out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One client of one group.

    Identity is (group, member_id): a registration with the same pair replaces the earlier one. For
    ``SIMPLE`` the member id is ``host/client id``, since there is no membership to name it.
    """

    group: str
    member_id: str
    kind: Kind
    client_id: str | None
    """As sent in the request header; None and "" are different clients."""
    host: str
    """Canonical text of the client's address, without port (placement.mapping.canonical_host)."""
    generation: int
    partitions: frozenset[tuple[str, int]] | None
    """(topic, partition) assigned to the member; None when not known (not synced, or not a consumer)."""
    offsets_partition: int
    """The ``__consumer_offsets`` partition whose coordinator says so."""
    epoch: int
    """Leader epoch of that partition; of two statements about one member the higher (epoch, sequence) is right."""
    sequence: int
    """Grows with every statement of that partition in that epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """The coordinator says that this client is no longer of this group."""

    group: str
    member_id: str
    offsets_partition: int
    epoch: int
    sequence: int


Statement = Registration | Withdrawal
