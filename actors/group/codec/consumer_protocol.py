"""The opaque bytes of members of protocol type ``consumer`` (ConsumerProtocolSubscription, -Assignment).

Only the required fields are read: newer versions append fields (KIP-429, KIP-792).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from muster.actors.group.codec.primitives import Reader, Writer
from muster.actors.group.errors import CorruptRecord

PROTOCOL_TYPE = "consumer"
OWNED_PARTITIONS_FROM = 1
_GENERATION_FROM = 2
_RACK_FROM = 3


class Subscription(NamedTuple):
    """Everything that a coordinator needs of it."""

    version: int
    topics: frozenset[str]
    owned: frozenset[tuple[str, int]] = frozenset()
    rack: str | None = None


def read_subscription(data: bytes) -> Subscription:
    """Read a subscription. Raises CorruptRecord if the bytes are none."""
    source = Reader(data)
    version = source.int16()
    topics = frozenset(source.string() for _ in range(source.array_length()))
    source.nullable_blob()
    owned = _partitions(source) if version >= OWNED_PARTITIONS_FROM else frozenset()
    if version >= _GENERATION_FROM:
        source.int32()
    rack = source.nullable_string() if version >= _RACK_FROM else None
    return Subscription(version, topics, owned, rack)


def read_assignment(data: bytes) -> frozenset[tuple[str, int]]:
    """(topic, partition) of an assignment, none for empty bytes.

    Raises CorruptRecord if the bytes are not an assignment.
    """
    if not data:
        return frozenset()
    source = Reader(data)
    source.int16()
    return _partitions(source)


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
    """Topics of a subscription; None if the bytes are not a subscription."""
    try:
        source = Reader(subscription)
        source.int16()
        return frozenset(source.string() for _ in range(source.array_length()))
    except CorruptRecord:
        return None


def owned_partitions(subscription: bytes) -> frozenset[tuple[str, int]]:
    """(topic, partition) that the member kept while joining (v1, KIP-429); none if the bytes do not contain them.

    A consumer with an eager assignor gives up its partitions before it joins, so it owns none.
    """
    try:
        source = Reader(subscription)
        if source.int16() < OWNED_PARTITIONS_FROM:
            return frozenset()
        for _ in range(source.array_length()):
            source.string()
        source.nullable_blob()
        return _partitions(source)
    except CorruptRecord:
        return frozenset()


def assigned_partitions(assignment: bytes) -> frozenset[tuple[str, int]] | None:
    """(topic, partition) of an assignment, none for empty bytes; None if the bytes are not an assignment."""
    try:
        return read_assignment(assignment)
    except CorruptRecord:
        return None


def _partitions(source: Reader) -> frozenset[tuple[str, int]]:
    return frozenset(
        (topic, source.int32())
        for topic in (source.string() for _ in range(source.array_length()))
        for _ in range(source.array_length())
    )
