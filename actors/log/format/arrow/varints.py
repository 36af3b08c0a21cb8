"""Zigzag varints (Protocol Buffers' sint32 and sint64), many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.actors.log.errors import CorruptMessage
from muster.actors.wire.kafka.framing import Buffer

INT_BYTES, LONG_BYTES = 5, 10
"""The longest encodings of 32 and 64 bits."""
PADDING_BYTES = 1
"""After the last byte: varints are read in words of two bytes."""

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint16]
Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]


def words_of(room: Buffer, size_bytes: int) -> Words:
    """Return the little-endian word that begins at each of the first bytes, PADDING_BYTES of which follow. No copy."""
    return np.ndarray((size_bytes,), "<u2", room, strides=(1,))


def read_varints(words: Words, at: Int64s, max_bytes: int = INT_BYTES) -> tuple[Int64s, Int64s]:
    """Return the values of the varints at these positions, and the positions after them.

    Raises CorruptMessage for a longer varint, IndexError for one that does not end. INT_BYTES may have up to 35 bits.
    """
    word = words[at]
    is_long = (word >> 7) & 1
    encoded = (word & 0x7F) | (((word >> 1) & 0x3F80) * is_long)
    values = ((encoded >> 1) ^ -(encoded & 1)).view(np.int16).astype(np.int64)
    after = at + 1
    after += is_long
    is_longer = (word & 0x8080) == 0x8080
    if is_longer.any():
        rows = np.flatnonzero(is_longer)
        values[rows], after[rows] = _read_long(words, at[rows], max_bytes)
    return values, after


def _read_long(words: Words, at: Int64s, max_bytes: int) -> tuple[Int64s, Int64s]:
    encoded, after, rest = np.zeros(len(at), np.uint64), at.copy(), np.arange(len(at))
    for index in range(max_bytes):
        byte = words[after[rest]] & 0xFF
        if index == LONG_BYTES - 1 and (byte > 1).any():
            raise CorruptMessage("a varint of more than 64 bits")
        encoded[rest] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        after[rest] += 1
        rest = rest[byte > 0x7F]
        if not rest.size:
            return ((encoded >> np.uint64(1)) ^ -(encoded & np.uint64(1))).view(np.int64), after
    raise CorruptMessage(f"a varint of more than {max_bytes} bytes")


def read_varint(payload: Buffer, at: int) -> tuple[int, int]:
    """Return one value of up to 32 bits, and the position after it. The errors of ``read_varints``."""
    encoded = 0
    for shift in range(0, 7 * INT_BYTES, 7):
        byte = payload[at]
        at += 1
        encoded |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (encoded >> 1) ^ -(encoded & 1), at
    raise CorruptMessage(f"a varint of more than {INT_BYTES} bytes")


def zigzag(values: Int64s) -> UInt64s:
    """Return the numbers that are written: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def sizes_of(encoded: UInt64s) -> Int64s:
    """Return the bytes that each takes as a varint."""
    sizes = np.ones(len(encoded), np.int64)
    longest = int(encoded.max(initial=0))
    for shift in range(7, longest.bit_length(), 7):
        sizes += encoded >= np.uint64(1 << shift)
    return sizes


def write_varints(out: Bytes, at: Int64s, encoded: UInt64s) -> Int64s:
    """Write the varints at these positions. Returns the positions after them."""
    is_more = encoded > 0x7F
    out[at] = encoded.astype(np.uint8) | (
        is_more.astype(np.uint8) << 7
    )  # the lowest seven bits, and whether more follow
    after, rows = at + 1, np.flatnonzero(is_more)
    left = encoded[rows] >> np.uint64(7)
    while rows.size:
        is_more = left > 0x7F
        out[after[rows]] = left.astype(np.uint8) & 0x7F | (is_more.astype(np.uint8) << 7)
        after[rows] += 1
        rows, left = rows[is_more], left[is_more] >> np.uint64(7)
    return after
