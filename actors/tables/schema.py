"""The tables' schemas. Units and meaning of a column are in its field metadata, so a Parquet file explains itself.

``samples``, under ``<storage>/metrics/samples/date=YYYY-MM-DD/hour=HH/`` (UTC, of ``ts``): one row is what one
gateway sent of one topic partition to one client, with the same attribution, as one contiguous run of offsets
within one flush window. A fetch that starts at ``last_offset + 1`` extends the row, any other offset begins a new
one. The union of ``[first_offset, last_offset]`` over rows is therefore exactly what was sent at least once, and
``sum(messages)`` minus the size of that union is what was sent again.

``rebalances``, under ``<storage>/metrics/rebalances/date=YYYY-MM-DD/hour=HH/`` (UTC, of ``ended``): one row is one
rebalance of one group, whether it led to a generation or not; :class:`actors.group.journal_entry.RebalanceEntry` has
the same fields. (``offsets_partition``, ``epoch``, ``number``) is unique.
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

REBALANCES = "rebalances"
REBALANCES_VERSION = 1
"""Grows with every change that an older reader would misread; added nullable columns do not change it."""

_WHO = [
    ("member_id", pa.string()),
    ("client_id", pa.string()),
    ("host", pa.string()),
    ("group_instance_id", pa.string()),
]
_WAITS = pa.list_(pa.struct([*_WHO, ("after_ms", pa.int64()), ("held_ms", pa.int64())]))
_PENDING = pa.list_(pa.struct([*_WHO, ("held_ms", pa.int64()), ("end", pa.string())]))
_GONE = pa.list_(pa.struct([*_WHO, ("cause", pa.string()), ("reason", pa.string())]))
_PAUSES = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("ms", pa.int64())]))

REBALANCES_SCHEMA = pa.schema(
    [
        _field("group", pa.string(), "", "consumer group"),
        _field("offsets_partition", pa.int32(), "", "the partition of __consumer_offsets that the group hashes to"),
        _field("epoch", pa.int32(), "", "leader epoch of the coordinator"),
        _field(
            "number", pa.int64(), "", "counts that coordinator's rebalances from 1, in the order of their beginning"
        ),
        _field("from_state", pa.string(), "", "state of the group when it began: Empty, CompletingRebalance, Stable"),
        _field("previous_generation", pa.int32(), "", "generation of the group when it began"),
        _field(
            "generation",
            pa.int32(),
            "",
            "the one that it led to; null if its join phase was not completed",
            nullable=True,
        ),
        _field("began", _MS_UTC, "ms", "when the group entered PreparingRebalance"),
        _field("joined", _MS_UTC, "ms", "when the join phase was completed", nullable=True),
        _field("stable", _MS_UTC, "ms", "when the assignment was stored, the group Stable", nullable=True),
        _field("ended", _MS_UTC, "ms", "when all had their assignment, or the next one began, or the group was Empty"),
        _field("ending", pa.string(), "", "stable, empty, restarted (the next began before Stable), aborted"),
        _field("cause", pa.string(), "", "why it began"),
        _field("culprit", pa.struct(_WHO), "", "the member that caused it, if it was a single one", nullable=True),
        _field("reason", pa.string(), "", "what that member gave as its reason (KIP-800)", nullable=True),
        _field("protocol_type", pa.string(), "", "of the group", nullable=True),
        _field("protocol", pa.string(), "", "the assignor that was chosen", nullable=True),
        _field("rebalance_protocol", pa.string(), "", "eager, cooperative; null if not known", nullable=True),
        _field("leader", pa.string(), "", "member id of the leader of the generation", nullable=True),
        _field("members_before", pa.int32(), "members", "before it, with those whose leaving caused it"),
        _field("members_after", pa.int32(), "members", "of the generation", nullable=True),
        _field(
            "join_waits", _WAITS, "ms", "earlier members: JoinGroup came after_ms (null: never), waited for held_ms"
        ),
        _field("join_waits_left_out", pa.int32(), "members", "not in join_waits, which has the longest first"),
        _field("sync_waits", _WAITS, "ms", "members: SyncGroup came after_ms after joined, waited for held_ms"),
        _field("sync_waits_left_out", pa.int32(), "members", "not in sync_waits, which has the longest first"),
        _field("pending", _PENDING, "ms", "handed-out member ids that the join phase waited for, the longest ones"),
        _field("added", pa.list_(pa.struct(_WHO)), "", "new members"),
        _field("added_left_out", pa.int32(), "members", "not in added"),
        _field("gone", _GONE, "", "members that left (cause null) or were expelled"),
        _field("gone_left_out", pa.int32(), "members", "not in gone"),
        _field(
            "partitions_assigned",
            pa.int32(),
            "partitions",
            "assigned, or waiting for an owner, when it began",
            nullable=True,
        ),
        _field("partitions_still", pa.int32(), "partitions", "those that nobody consumed for a time", nullable=True),
        _field("lost_partition_ms", pa.int64(), "ms", "sum of the times over these partitions", nullable=True),
        _field("partitions", _PAUSES, "ms", "which they were and for how long, longest first"),
        _field("partitions_left_out", pa.int32(), "partitions", "not in partitions"),
    ],
    metadata={"muster.table": REBALANCES, "muster.schema.version": str(REBALANCES_VERSION)},
)
