"""``rebalances``: one row is one rebalance of one group, whether it led to a generation or not.

:class:`muster.actors.tables.rebalance_entry.RebalanceEntry` has the same fields.
(``offsets_partition``, ``epoch``, ``number``) is unique.
"""

from __future__ import annotations

import pyarrow as pa

from muster.actors.tables.schemas.base import MS_UTC, column, table

REBALANCES = "rebalances"
REBALANCES_VERSION = 1

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

REBALANCES_SCHEMA = table(
    REBALANCES,
    REBALANCES_VERSION,
    "ended",
    [
        column("group", pa.string(), "", "consumer group"),
        column("offsets_partition", pa.int32(), "", "the partition of __consumer_offsets that the group hashes to"),
        column("epoch", pa.int32(), "", "leader epoch of the coordinator"),
        column(
            "number", pa.int64(), "", "counts that coordinator's rebalances from 1, in the order of their beginning"
        ),
        column("from_state", pa.string(), "", "state of the group when it began: Empty, CompletingRebalance, Stable"),
        column("previous_generation", pa.int32(), "", "generation of the group when it began"),
        column(
            "generation",
            pa.int32(),
            "",
            "the one that it led to; null if its join phase was not completed",
            nullable=True,
        ),
        column("began", MS_UTC, "ms", "when the group entered PreparingRebalance"),
        column("joined", MS_UTC, "ms", "when the join phase was completed", nullable=True),
        column("stable", MS_UTC, "ms", "when the assignment was stored, the group Stable", nullable=True),
        column("ended", MS_UTC, "ms", "when all had their assignment, or the next one began, or the group was Empty"),
        column("ending", pa.string(), "", "stable, empty, restarted (the next began before Stable), aborted"),
        column("cause", pa.string(), "", "why it began"),
        column("culprit", pa.struct(_WHO), "", "the member that caused it, if it was a single one", nullable=True),
        column("reason", pa.string(), "", "what that member gave as its reason (KIP-800)", nullable=True),
        column("protocol_type", pa.string(), "", "of the group", nullable=True),
        column("protocol", pa.string(), "", "the assignor that was chosen", nullable=True),
        column("rebalance_protocol", pa.string(), "", "eager, cooperative; null if not known", nullable=True),
        column("leader", pa.string(), "", "member id of the leader of the generation", nullable=True),
        column("members_before", pa.int32(), "members", "before it, with those whose leaving caused it"),
        column("members_after", pa.int32(), "members", "of the generation", nullable=True),
        column(
            "join_waits", _WAITS, "ms", "earlier members: JoinGroup came after_ms (null: never), waited for held_ms"
        ),
        column("join_waits_left_out", pa.int32(), "members", "not in join_waits, which has the longest first"),
        column("sync_waits", _WAITS, "ms", "members: SyncGroup came after_ms after joined, waited for held_ms"),
        column("sync_waits_left_out", pa.int32(), "members", "not in sync_waits, which has the longest first"),
        column("pending", _PENDING, "ms", "handed-out member ids that the join phase waited for, the longest ones"),
        column("added", pa.list_(pa.struct(_WHO)), "", "new members"),
        column("added_left_out", pa.int32(), "members", "not in added"),
        column("gone", _GONE, "", "members that left (cause null) or were expelled"),
        column("gone_left_out", pa.int32(), "members", "not in gone"),
        column(
            "partitions_assigned",
            pa.int32(),
            "partitions",
            "assigned, or waiting for an owner, when it began",
            nullable=True,
        ),
        column("partitions_still", pa.int32(), "partitions", "those that no member consumed for a time", nullable=True),
        column("lost_partition_ms", pa.int64(), "ms", "sum of the times over these partitions", nullable=True),
        column("partitions", _PAUSES, "ms", "which they were and for how long, longest first"),
        column("partitions_left_out", pa.int32(), "partitions", "not in partitions"),
    ],
)
