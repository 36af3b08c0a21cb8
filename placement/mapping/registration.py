"""Which client fetches for which group, as the group's coordinator knows it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    MEMBER = "member"
    """A member of the group; exists as long as its membership."""
    SIMPLE = "simple"
    """A consumer that assigns partitions itself and was seen to commit offsets; expires."""


class Registration(NamedTuple):
    """One client of one group.

    Identity is (group, member_id): a registration with the same pair replaces the earlier one. ``SIMPLE`` has no
    membership, so the member id names the client: principal, host, client id.
    """

    group: str
    member_id: str
    kind: Kind
    client_id: str | None
    """Sent in the request header; None and "" are different clients."""
    host: str
    """Canonical text of the client's address, without port (muster.placement.mapping.nodes.canonical_host)."""
    generation: int
    partitions: frozenset[tuple[str, int]] | None
    """(topic, partition) assigned to the member; None if unknown (not synced, or not a consumer)."""
    offsets_partition: int
    """The ``__consumer_offsets`` partition whose coordinator reports this."""
    epoch: int
    """Leader epoch of that partition; of two updates about one member, the higher (epoch, sequence) is valid."""
    sequence: int
    """Increases with every update of that partition in that epoch."""
    principal: str | None = None
    """Principal of the connection that the client uses for its group; ``User:ANONYMOUS`` without SASL.

    None if unknown: it is not in the log, so a member that was loaded from there has none until its next request.
    None matches every principal.
    """


class Withdrawal(NamedTuple):
    """The coordinator reports that this client no longer belongs to this group."""

    group: str
    member_id: str
    offsets_partition: int
    epoch: int
    sequence: int
    left: bool = False
    """The client sent LeaveGroup, so it has stopped fetching. Otherwise it may not know yet that it was removed."""


TopicOffsets = tuple[str, tuple[int, ...], tuple[int, ...]]
"""Topic, partitions (at least one), and the committed offset of each, never negative."""


class Position(NamedTuple):
    """The coordinator answered an OffsetFetch of this client with these committed offsets.

    A consumer begins there, so a Fetch at such an offset is evidence of its sender. A position changes no
    registration, and is sent to the gateways only. Member id, host, client id and principal are the registration's.
    """

    group: str
    member_id: str
    principal: str | None
    host: str
    client_id: str | None
    topics: tuple[TopicOffsets, ...]
    """At least one."""
    offsets_partition: int
    epoch: int
    sequence: int
    is_hint: bool = False
    """Nothing but the partitions shows that this member sent the request: an admin tool with its client id may have."""


class SimpleCommit(NamedTuple):
    """A client that is no member committed these offsets.

    Its connection was sent the partitions up to there, if it is a consumer. An admin tool that sets offsets sends the
    same request. Like a position, it changes no registration, and is sent to the gateways only.
    """

    group: str
    member_id: str
    """Member id of the registration (``Kind.SIMPLE``)."""
    principal: str
    host: str
    client_id: str | None
    connection: str
    """On which it sent the request: different processes have different ones."""
    positions: tuple[tuple[str, int, int], ...]
    """(topic, partition, committed offset), the offset never negative; at least one."""
    offsets_partition: int
    epoch: int
    sequence: int


Change = Registration | Withdrawal
"""Start or end of a client's consumption for a group."""
Trace = Position | SimpleCommit
"""Position of a client in its group's partitions. For the gateways only: it is not kept."""
RegistrationUpdate = Change | Trace
