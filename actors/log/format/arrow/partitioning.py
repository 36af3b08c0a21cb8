"""Partitions of many keys, as Kafka's own producer chooses them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muster.actors.log.format.arrow.binary import Content, as_binary, content_of
from muster.placement.hashing import MURMUR_FACTOR, MURMUR_SEED, partition_of

_WIDE = 16
"""From so many keys on, an operation of numpy on all takes less time than a loop over them."""


def partitions_of(keys: pa.Array | pa.ChunkedArray, count: int) -> NDArray[np.int32]:
    """Return the partition, below ``count``, of each key: ``hashing.partition_of``. -1 for null.

    Raises TypeError for a column of another type than binary or string, ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError(f"a topic has at least one partition, not {count}")
    data, starts, sizes = content_of(as_binary("key", keys))
    found = np.full(len(sizes), -1, np.int32)
    order = np.argsort(sizes, kind="stable")[np.count_nonzero(sizes < 0) :]
    words = sizes[order] >> 2
    is_long = words > (words[-_WIDE] if len(words) >= _WIDE else -1)
    short = order[~is_long]
    found[short] = (_murmur2(Content(data, starts[short], sizes[short])) & 0x7FFFFFFF) % np.uint32(count)
    for row in order[is_long].tolist():
        found[row] = partition_of(data[starts[row] : starts[row] + sizes[row]].tobytes(), count)
    return found


def _murmur2(keys: Content) -> NDArray[np.uint32]:
    """Return the hashes of keys in the order of their sizes."""
    data, at, sizes = keys.data, keys.starts.copy(), keys.sizes
    factor = np.uint32(MURMUR_FACTOR)
    hashes = sizes.astype(np.uint32) ^ np.uint32(MURMUR_SEED)
    words = np.ndarray((max(len(data) - 3, 0),), "<u4", data, strides=(1,))
    whole = sizes >> 2
    for index in range(int(whole.max(initial=0))):
        longer = slice(int(np.searchsorted(whole, index, "right")), None)
        word = words[at[longer]] * factor
        word ^= word >> 24
        word *= factor
        hashes[longer] = hashes[longer] * factor ^ word
        at[longer] += 4
    rest = sizes & 3
    for index in (2, 1, 0):
        rows = np.flatnonzero(rest > index)
        hashes[rows] ^= data[at[rows] + index].astype(np.uint32) << np.uint32(8 * index)
    hashes[rest > 0] *= factor
    hashes ^= hashes >> 13
    hashes *= factor
    hashes ^= hashes >> 15
    return hashes
