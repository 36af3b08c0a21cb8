"""What goes into and comes out of the group coordinator core. No I/O, no clock, no Ray.

Requests and responses are version-neutral; ``muster.actors.group.codec.adapters`` translates Kafka's versions. Where
the answer depends on the version, the request says so (``api_version``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, NewType

from muster.placement.mapping.registration import RegistrationUpdate

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
Token = NewType("Token", int)
"""Names one request; the answer to it carries the same token. No reply under the token means: parked."""
WriteId = NewType("WriteId", int)


class Who(NamedTuple):
    """A member, or a client that was handed a member id, as an operator finds it again."""

    member_id: MemberId
    client_id: str | None
    host: str
    """Canonical address without port."""
    group_instance_id: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """A record for the partition's log, Kafka's own bytes. A value of None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one step of the core wants done.

    ``replies`` may go at once. If ``write`` is set, the shell appends ``records`` (perhaps none) as one
    atomic batch and calls ``Coordinator.written(write, now_ms)`` once they *and everything appended before*
    are durable, or ``Coordinator.write_failed(write, error, now_ms)``; both give an Outcome again, with the
    replies that waited. ``records`` are already applied to memory when the Outcome is returned.
    """

    replies: tuple[tuple[Token, Any], ...] = ()
    records: tuple[Record, ...] = ()
    write: WriteId | None = None
    updates: tuple[RegistrationUpdate, ...] = ()
    """Changes of who consumes for which group, to be told to the gateways and to ZooKeeper."""
    events: tuple[Any, ...] = field(default=())
    """What operators want to know (rebalance begun, completed, member expired, ...)."""
