"""Which ``__consumer_offsets`` partition owns a group. This is Kafka's rule, so tools agree with us."""

from __future__ import annotations

from functools import lru_cache

_INT_MIN = -(2**31)
_SHORT_CHARS = 64


def java_string_hash(text: str) -> int:
    """``java.lang.String.hashCode``: signed 32 bit, over UTF-16 code units (a surrogate pair counts as two)."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that owns the group.

    ``partitions`` is the topic's partition count, at least 1 (ValueError). As in Kafka, the absolute value of
    the hash is taken, and that of -2**31 is 0 (``org.apache.kafka.common.utils.Utils.abs``); masking the sign
    bit or Python's non-negative ``%`` would give another partition for most negative hashes.
    """
    if partitions < 1:
        raise ValueError(f"a topic has at least one partition, not {partitions}")
    value = _short_hash(group_id) if len(group_id) <= _SHORT_CHARS else java_string_hash(group_id)
    return 0 if value == _INT_MIN else abs(value) % partitions


@lru_cache(maxsize=8192)
def _short_hash(text: str) -> int:
    """Each request of a group needs it, and it takes 3 us. Only of short texts: clients choose them."""
    return java_string_hash(text)
