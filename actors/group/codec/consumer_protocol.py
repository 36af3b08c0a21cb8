"""The opaque bytes of members of protocol type ``consumer`` (ConsumerProtocolSubscription, -Assignment).

Only the required fields are read: newer versions append fields (KIP-429, KIP-792).
"""

from __future__ import annotations

from muster.actors.group.codec.primitives import Reader
from muster.actors.group.errors import CorruptRecord

PROTOCOL_TYPE = "consumer"
OWNED_PARTITIONS_FROM = 1


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
    if not assignment:
        return frozenset()
    try:
        source = Reader(assignment)
        source.int16()
        return _partitions(source)
    except CorruptRecord:
        return None


def _partitions(source: Reader) -> frozenset[tuple[str, int]]:
    return frozenset(
        (topic, source.int32())
        for topic in (source.string() for _ in range(source.array_length()))
        for _ in range(source.array_length())
    )
