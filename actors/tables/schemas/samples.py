"""``samples``: what the gateways sent, to which client, and for which group.

One row is what one gateway sent of one topic partition to one client, with the same attribution, as one contiguous
run of offsets within one flush window. A fetch that starts at ``last_offset + 1`` extends the row; a fetch at any other
offset begins a new one. So the union of ``[first_offset, last_offset]`` over rows is exactly what was sent at least
once, and ``sum(messages)`` minus the size of that union is what was sent again.
"""

from __future__ import annotations

from muster.actors.tables.schemas.base import MS_UTC, column, table

SAMPLES = "samples"
SAMPLES_VERSION = 1

SAMPLES_SCHEMA = table(
    SAMPLES,
    SAMPLES_VERSION,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when the first bytes of the run were handed to the socket"),
        column("last_ts", MS_UTC, "ms", "when the last bytes of the run were handed to the socket"),
        column("gateway", "int32", "broker id", "the gateway that sent them"),
        column("group", "string", "", "consumer group; null when there is none, see reason", nullable=True),
        column("member_id", "string", "", "member of the group, where known", nullable=True),
        column("client_id", "string", "", "as in the request header; null and empty are different", nullable=True),
        column("host", "string", "", "the client's address, canonical, without port"),
        column("topic", "string", "", "topic"),
        column("partition", "int32", "", "partition of the topic"),
        column("evidence", "string", "", "how the group is known"),
        column("reason", "string", "", "why there is no group; null when there is one", nullable=True),
        column("messages", "int64", "records", "records in the batches that were sent, whole batches"),
        column("bytes", "int64", "bytes", "size of the batches that were sent"),
        column("fetches", "int64", "responses", "Fetch responses that carried the run"),
        column("first_offset", "int64", "offset", "the larger of the fetch offset and the first base offset"),
        column("last_offset", "int64", "offset", "last offset of the last batch, inclusive"),
        column("control_records", "int64", "records", "of messages, the markers of transactions", nullable=True),
        column(
            "aborted_records",
            "int64",
            "records",
            "of messages, those of aborted transactions, which a client with isolation.level=read_committed skips",
            nullable=True,
        ),
    ],
)
