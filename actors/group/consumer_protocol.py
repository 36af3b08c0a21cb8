"""What members of protocol type ``consumer`` put into their opaque bytes (ConsumerProtocolSubscription, -Assignment).

Only the part that every version begins with is read: newer versions append fields (KIP-429, KIP-792).
"""

from __future__ import annotations

from actors.group.errors import CorruptRecord
from actors.group.primitives import Reader

PROTOCOL_TYPE = "consumer"


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """Topics of a subscription; None if the bytes are none."""
    try:
        source = Reader(subscription)
        source.int16()
        return frozenset(source.string() for _ in range(source.array_length()))
    except CorruptRecord:
        return None


def assigned_partitions(assignment: bytes) -> frozenset[tuple[str, int]] | None:
    """(topic, partition) of an assignment, none for empty bytes; None if the bytes are no assignment."""
    if not assignment:
        return frozenset()
    try:
        source = Reader(assignment)
        source.int16()
        return frozenset(
            (topic, source.int32())
            for topic in (source.string() for _ in range(source.array_length()))
            for _ in range(source.array_length())
        )
    except CorruptRecord:
        return None
