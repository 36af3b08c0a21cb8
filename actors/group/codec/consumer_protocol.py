"""What members of protocol type ``consumer`` put into their opaque bytes (ConsumerProtocolSubscription, -Assignment).

Only what is needed is read: newer versions append fields (KIP-429, KIP-792).
"""

from __future__ import annotations

from muster.actors.group.codec.primitives import Reader
from muster.actors.group.errors import CorruptRecord

PROTOCOL_TYPE = "consumer"
OWNED_PARTITIONS_FROM = 1


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """Topics of a subscription; None if the bytes are none."""
    try:
        source = Reader(subscription)
        source.int16()
        return frozenset(source.string() for _ in range(source.array_length()))
    except CorruptRecord:
        return None


def owned_partitions(subscription: bytes) -> frozenset[tuple[str, int]]:
    """(topic, partition) that the member kept while it joined (v1, KIP-429); none if the bytes do not say.

    A consumer with an eager assignor gives its partitions up before it joins, and so owns none.
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
    """(topic, partition) of an assignment, none for empty bytes; None if the bytes are no assignment."""
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
