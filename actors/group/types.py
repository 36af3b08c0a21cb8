"""Types for the input and output of the group coordinator core. No I/O, no clock, no Ray.

Requests and responses are version-neutral; ``muster.actors.group.codec.adapters`` translates Kafka's versions. Where
the response depends on the version, the request carries it (``api_version``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, NewType, TypeVar

from muster.placement.mapping.registration import RegistrationUpdate

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
Token = NewType("Token", int)
"""Identifies one request; its response carries the same token. A request without a reply is parked."""
WriteId = NewType("WriteId", int)


class Phase(Enum):
    """Phase of a coordinator, of groups or of transactions."""

    LOADING = "Loading"
    ACTIVE = "Active"
    RESIGNED = "Resigned"


class Who(NamedTuple):
    """A member, or a client that was handed a member id, as an operator identifies it."""

    member_id: MemberId
    client_id: str | None
    host: str
    """Canonical address without port."""
    group_instance_id: str | None


class Record(NamedTuple):
    """A record for the partition's log, in Kafka's bytes. A value of None is a tombstone."""

    key: bytes
    value: bytes | None


_Named = TypeVar("_Named", bound=tuple[Any, ...])


def maker(kind: type[_Named]) -> Callable[[tuple[Any, ...]], _Named]:
    """Return a fast constructor of named tuples from tuples of all fields: half of the time, for one per partition."""
    return partial(tuple.__new__, kind)


new_record = maker(Record)


class Producer(NamedTuple):
    """A transactional producer, as it is in the headers of its batches."""

    producer_id: int
    epoch: int


class TxnMarker(NamedTuple):
    """The end of a producer's transaction in this partition: a control batch (WriteTxnMarkers, KIP-98)."""

    producer: Producer
    commit: bool
    coordinator_epoch: int
    """That of the transaction coordinator."""
    transaction_version: int = 0


class Outcome(NamedTuple):
    """Work for the shell after one step of the core.

    ``replies`` may be sent immediately. If ``write`` is set, the shell appends ``records`` (possibly none) as one
    atomic batch. It calls ``Coordinator.written(write, now_ms)`` once they *and everything appended before* are
    durable, or else ``Coordinator.write_failed(write, error, now_ms)``. Both return another Outcome, with the replies
    that were waiting. ``records`` are already applied to memory when the Outcome is returned.
    """

    replies: tuple[tuple[Token, Any], ...] = ()
    records: tuple[Record, ...] = ()
    write: WriteId | None = None
    producer: Producer | None = None
    """Whose transactional batch the records are. None: they are an ordinary batch."""
    marker: TxnMarker | None = None
    """The marker to append; there are no records then."""
    updates: tuple[RegistrationUpdate, ...] = ()
    """Changes of which client consumes for which group, for the gateways and ZooKeeper."""
    events: tuple[Any, ...] = ()
    """Events for operators (rebalance started, completed, member expired, ...)."""
    revoked: tuple[GroupId, ...] = ()
    """Groups whose leases have ended. Gateways must know before they get ``replies``."""
    leases: tuple[tuple[Token, GroupId, MemberId], ...] = ()
    """Heartbeats among ``replies`` whose gateway may answer the member's next ones."""
