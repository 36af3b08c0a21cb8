"""The tasks of Kafka Connect's workers, from the opaque bytes of groups of protocol type ``connect``.

Version 0 is eager: the assignment is all that a worker has. From version 1 on (incremental cooperative, KIP-415; 2 is
sessioned, KIP-507) the assignment lists what the worker gets and what it must give up; the worker itself listed what
it had when it joined.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.actors.group.codec.primitives import Reader
from muster.actors.group.errors import CorruptRecord

PROTOCOL_TYPE = "connect"
COOPERATIVE_FROM = 1
_CONNECTOR_ITSELF = -1

Task = tuple[str, int]
"""Connector and number; -1 is the connector itself."""


class _Assignment(NamedTuple):
    version: int
    given: frozenset[Task]
    revoked: frozenset[Task]


_NOTHING = _Assignment(0, frozenset(), frozenset())


def assigned_tasks(subscription: bytes, assignment: bytes) -> list[tuple[str, int | None]] | None:
    """(connector, task) of everything a worker has, sorted; the connector itself has None. None if unreadable.

    ``subscription``: what the worker joined with. It is read only if the leader used it.
    """
    try:
        change = _assignment(assignment)
        had = _had(subscription) if change.version >= COOPERATIVE_FROM else frozenset()
    except CorruptRecord:
        return None
    tasks = sorted((had - change.revoked) | change.given)
    return [(connector, None if task == _CONNECTOR_ITSELF else task) for connector, task in tasks]


def _had(subscription: bytes) -> frozenset[Task]:
    """Return the tasks in a subscription. Raises CorruptRecord."""
    source = Reader(subscription)
    source.int16()
    source.nullable_string()
    source.int64()
    return _assignment(source.nullable_blob() or b"").given if source.left else frozenset()


def _assignment(data: bytes) -> _Assignment:
    """Missing fields at the end are empty, as in Connect. Raises CorruptRecord."""
    if not data:
        return _NOTHING
    source = Reader(data)
    version = source.int16()
    source.int16()
    source.nullable_string()
    source.nullable_string()
    source.int64()
    given = _tasks(source)
    return _Assignment(version, given, _tasks(source) if version >= COOPERATIVE_FROM and source.left else frozenset())


def _tasks(source: Reader) -> frozenset[Task]:
    return frozenset(
        (connector, source.int32())
        for connector in (source.string() for _ in range(source.nullable_array_length()))
        for _ in range(source.array_length())
    )
