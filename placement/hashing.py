"""Kafka's hashes: the partition of ``__consumer_offsets`` that owns a group, and a topic's that a key goes to."""

from __future__ import annotations

from functools import lru_cache

MURMUR_SEED, MURMUR_FACTOR = 0x9747B28C, 0x5BD1E995
_INT_MIN = -(2**31)
_SHORT_CHARS = 64
_BLOCK_UNITS = 32
_BLOCK_BYTES = 2 * _BLOCK_UNITS
_BLOCK_POWER = 31**_BLOCK_UNITS & 0xFFFFFFFF


def java_string_hash(text: str) -> int:
    """``java.lang.String.hashCode``: signed 32 bit, over UTF-16 code units (a surrogate pair counts as two)."""
    units = text.encode("utf-16-le", "surrogatepass")
    units = bytes(-len(units) % _BLOCK_BYTES) + units  # zeros in front change nothing
    folded = _folded(units)
    value = 0
    for at in range(0, len(units), _BLOCK_BYTES):
        block = int.from_bytes(folded[at : at + _BLOCK_BYTES], "little")
        value = (value * _BLOCK_POWER + block) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def _folded(units: bytes) -> bytes:
    """Return the hash of each block of units, before it is cut to 32 bits, in the place of the block.

    A name may have 32,767 characters, and a loop over them takes a gateway several ms. Here one operation on an integer
    of all units combines all pairs of neighbours, and the next ones pairs of these; a sum always fits into its place.
    """
    value, width = int.from_bytes(units, "little"), 2
    while width < _BLOCK_BYTES:
        first = int.from_bytes((b"\xff" * width + bytes(width)) * (len(units) // (2 * width)), "little")
        value = (value & first) * 31 ** (width // 2) + ((value >> 8 * width) & first)
        width *= 2
    return value.to_bytes(len(units), "little")


def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that owns the group.

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


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of a key: that of Kafka's own producer (``BuiltInPartitioner.partitionForKey``)."""
    return (_murmur2(key) & 0x7FFFFFFF) % count


def _murmur2(data: bytes) -> int:
    """Return MurmurHash2 of 32 bits, with Kafka's seed (``Utils.murmur2``)."""
    factor, mask = MURMUR_FACTOR, 0xFFFFFFFF
    value = MURMUR_SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        value = value * factor & mask ^ word
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15
