"""Columns of bytes and strings, as numpy sees them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muster.actors.log.format.arrow.varints import Bytes, Int64s

_ACCEPTED = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_null,
)


class Content(NamedTuple):
    """Bytes of a column."""

    data: Bytes
    starts: Int64s
    """Position in ``data`` at which each row begins."""
    sizes: Int64s
    """-1 is null."""


def as_binary(name: str, column: pa.Array | pa.ChunkedArray) -> pa.LargeBinaryArray:
    """Return the column in one array; strings become their UTF-8. Raises TypeError for other types."""
    if not any(is_it(column.type) for is_it in _ACCEPTED):
        raise TypeError(f"the {name} column has the type {column.type}: cast it to binary or string")
    binary = column.cast(pa.large_binary())
    return binary.combine_chunks() if isinstance(binary, pa.ChunkedArray) else binary


def content_of(array: pa.LargeBinaryArray) -> Content:
    """Return the bytes of the rows. Nothing is copied."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets or bytes(8), np.int64)[array.offset : array.offset + len(array) + 1]
    starts, sizes = bounds[:-1], np.diff(bounds)
    if array.null_count:
        sizes[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return Content(np.frombuffer(data or b"", np.uint8), starts, sizes)
