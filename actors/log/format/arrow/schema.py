"""The columns of records. It needs no NumPy."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.binary())),
    ]
)
"""The columns of Ray's ``read_kafka``. ``timestamp`` is in ms, -1 for none."""
