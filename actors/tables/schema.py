"""The tables' schemas. Units and meaning of a column are in its field metadata, so a Parquet file explains itself.

``samples``, under ``<storage>/metrics/samples/date=YYYY-MM-DD/hour=HH/`` (UTC, of ``ts``): one row is what one
gateway sent of one topic partition to one client, with the same attribution, as one contiguous run of offsets
within one flush window. A fetch that starts at ``last_offset + 1`` extends the row, any other offset begins a new
one. The union of ``[first_offset, last_offset]`` over rows is therefore exactly what was sent at least once, and
``sum(messages)`` minus the size of that union is what was sent again.
"""

from __future__ import annotations

import pyarrow as pa

SAMPLES = "samples"
SAMPLES_VERSION = 1
"""Grows with every change that an older reader would misread; added nullable columns do not change it."""


def _field(name: str, kind: pa.DataType, unit: str, meaning: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit, "meaning": meaning})


_MS_UTC = pa.timestamp("ms", tz="UTC")

SAMPLES_SCHEMA = pa.schema(
    [
        _field("ts", _MS_UTC, "ms", "when the first bytes of the run were handed to the socket"),
        _field("last_ts", _MS_UTC, "ms", "when the last bytes of the run were handed to the socket"),
        _field("gateway", pa.int32(), "broker id", "the gateway that sent them"),
        _field("group", pa.string(), "", "consumer group; null when there is none, see reason", nullable=True),
        _field("member_id", pa.string(), "", "member of the group, where known", nullable=True),
        _field("client_id", pa.string(), "", "as in the request header; null and empty are different", nullable=True),
        _field("host", pa.string(), "", "the client's address, canonical, without port"),
        _field("topic", pa.string(), "", "topic"),
        _field("partition", pa.int32(), "", "partition of the topic"),
        _field("evidence", pa.string(), "", "how the group is known"),
        _field("reason", pa.string(), "", "why there is no group; null when there is one", nullable=True),
        _field("messages", pa.int64(), "records", "records in the batches that were sent, whole batches"),
        _field("bytes", pa.int64(), "bytes", "size of the batches that were sent"),
        _field("fetches", pa.int64(), "responses", "Fetch responses that carried the run"),
        _field("first_offset", pa.int64(), "offset", "the larger of the fetch offset and the first base offset"),
        _field("last_offset", pa.int64(), "offset", "last offset of the last batch, inclusive"),
    ],
    metadata={"muster.table": SAMPLES, "muster.schema.version": str(SAMPLES_VERSION)},
)
