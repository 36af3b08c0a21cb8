"""The opaque bytes of members of protocol type ``consumer`` (ConsumerProtocolSubscription, -Assignment).

Newer versions append fields (KIP-429, KIP-792), so an unknown one is read as the newest that is known. Assignments and
subscriptions of version 0 may end before the user data.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription import v0, v1, v2, v3

from muster.actors.group.codec.primitives import Writer
from muster.actors.group.errors import CorruptRecord
from muster.actors.wire.kafka.lengths import UNREADABLE, why
from muster.actors.wire.kafka.reader import Read, reader

PROTOCOL_TYPE = "consumer"
OWNED_PARTITIONS_FROM = 1
_VERSION_BYTES = 2
_NO_USER_DATA = b"\xff" * 4
_SUBSCRIPTIONS = tuple(reader(each.data.ConsumerProtocolSubscription) for each in (v0, v1, v2, v3))
_ASSIGNMENT = reader(ConsumerProtocolAssignment)


class Subscription(NamedTuple):
    """Everything that a coordinator needs of it."""

    version: int
    topics: frozenset[str]
    owned: frozenset[tuple[str, int]] = frozenset()
    rack: str | None = None


def read_subscription(data: bytes) -> Subscription:
    """Read a subscription. Raises CorruptRecord if the bytes are none."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    found = _read_subscription(data, version)
    owned = _partitions(found.owned_partitions) if version >= OWNED_PARTITIONS_FROM else frozenset()
    return Subscription(version, frozenset(found.topics), owned, getattr(found, "rack_id", None))


def _read_subscription(data: bytes, version: int) -> Any:
    """Read it in the schema of that version. Raises CorruptRecord."""
    return _read(_SUBSCRIPTIONS[min(max(version, 0), len(_SUBSCRIPTIONS) - 1)], data)


def _read(read: Read, data: bytes) -> Any:
    """Return what it reads. Raises CorruptRecord."""
    count = len(data)  # of elements, of which each takes a byte or more
    try:
        return read(data, _VERSION_BYTES, count)[0]
    except UNREADABLE as error:
        if read is _SUBSCRIPTIONS[0] or read is _ASSIGNMENT:
            with suppress(*UNREADABLE):
                found, end = read(data + _NO_USER_DATA, _VERSION_BYTES, count)
                if end == len(data) + len(_NO_USER_DATA):
                    return found
        raise CorruptRecord(f"it cannot be read: {why(error)}") from error


def read_assignment(data: bytes) -> frozenset[tuple[str, int]]:
    """(topic, partition) of an assignment, none for empty bytes.

    Raises CorruptRecord if the bytes are not an assignment.
    """
    return _partitions(_read(_ASSIGNMENT, data).assigned_partitions) if data else frozenset()


def write_assignment(partitions: Iterable[tuple[str, int]], version: int) -> bytes:
    """Return the bytes of an assignment, in the format of a subscription of that version."""
    by_topic = [
        (topic, [index for _, index in mine]) for topic, mine in groupby(sorted(partitions), lambda each: each[0])
    ]
    out = Writer().int16(version).array_length(len(by_topic))
    for topic, indexes in by_topic:
        out.string(topic).int32s(indexes)
    return out.int32(-1).bytes()


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """Topics of a subscription, read as version 0 as in Kafka; None if the bytes are not a subscription."""
    try:
        return frozenset(_read_subscription(subscription, 0).topics)
    except CorruptRecord:
        return None


def owned_partitions(subscription: bytes) -> frozenset[tuple[str, int]]:
    """(topic, partition) that the member kept while joining (v1, KIP-429); none if the bytes do not contain them.

    A consumer with an eager assignor gives up its partitions before it joins, so it owns none.
    """
    if int.from_bytes(subscription[:_VERSION_BYTES], "big", signed=True) < OWNED_PARTITIONS_FROM:
        return frozenset()
    try:
        return _partitions(_read_subscription(subscription, OWNED_PARTITIONS_FROM).owned_partitions)
    except CorruptRecord:
        return frozenset()


def assigned_partitions(assignment: bytes) -> frozenset[tuple[str, int]] | None:
    """(topic, partition) of an assignment, none for empty bytes; None if the bytes are not an assignment."""
    try:
        return read_assignment(assignment)
    except CorruptRecord:
        return None


def _partitions(topics: Iterable[Any]) -> frozenset[tuple[str, int]]:
    return frozenset([(each.topic, index) for each in topics for index in each.partitions])
