"""``rebalances``: one row is one rebalance of one group, whether it led to a generation or not.

:class:`muster.actors.tables.rebalance_entry.RebalanceEntry` has the same fields.
(``offsets_partition``, ``epoch``, ``number``) is unique.
"""

from __future__ import annotations

from muster.actors.tables.schemas.base import MS_UTC, ListOf, Struct, column, table

REBALANCES = "rebalances"
REBALANCES_VERSION = 1

_WHO = [
    ("member_id", "string"),
    ("client_id", "string"),
    ("host", "string"),
    ("group_instance_id", "string"),
]
_WAITS = ListOf(Struct([*_WHO, ("after_ms", "int64"), ("held_ms", "int64")]))
_PENDING = ListOf(Struct([*_WHO, ("held_ms", "int64"), ("end", "string")]))
_GONE = ListOf(Struct([*_WHO, ("cause", "string"), ("reason", "string")]))
_PAUSES = ListOf(Struct([("topic", "string"), ("partition", "int32"), ("ms", "int64")]))

REBALANCES_SCHEMA = table(
    REBALANCES,
    REBALANCES_VERSION,
    "ended",
    [
        column("group", "string", "", "consumer group"),
        column("offsets_partition", "int32", "", "the partition of __consumer_offsets that the group hashes to"),
        column("epoch", "int32", "", "leader epoch of the coordinator"),
        column("number", "int64", "", "counts that coordinator's rebalances from 1, in the order of their beginning"),
        column("from_state", "string", "", "state of the group when it began: Empty, CompletingRebalance, Stable"),
        column("previous_generation", "int32", "", "generation of the group when it began"),
        column(
            "generation",
            "int32",
            "",
            "the one that it led to; null if its join phase was not completed",
            nullable=True,
        ),
        column("began", MS_UTC, "ms", "when the group entered PreparingRebalance"),
        column("joined", MS_UTC, "ms", "when the join phase was completed", nullable=True),
        column("stable", MS_UTC, "ms", "when the assignment was stored, the group Stable", nullable=True),
        column("ended", MS_UTC, "ms", "when all had their assignment, or the next one began, or the group was Empty"),
        column("ending", "string", "", "stable, empty, restarted (the next began before Stable), aborted"),
        column("cause", "string", "", "why it began"),
        column("culprit", Struct(_WHO), "", "the member that caused it, if it was a single one", nullable=True),
        column("reason", "string", "", "what that member gave as its reason (KIP-800)", nullable=True),
        column("protocol_type", "string", "", "of the group", nullable=True),
        column("protocol", "string", "", "the assignor that was chosen", nullable=True),
        column("rebalance_protocol", "string", "", "eager, cooperative; null if not known", nullable=True),
        column("leader", "string", "", "member id of the leader of the generation", nullable=True),
        column("members_before", "int32", "members", "before it, with those whose leaving caused it"),
        column("members_after", "int32", "members", "of the generation", nullable=True),
        column(
            "join_waits", _WAITS, "ms", "earlier members: JoinGroup came after_ms (null: never), waited for held_ms"
        ),
        column("join_waits_left_out", "int32", "members", "not in join_waits, which has the longest first"),
        column("sync_waits", _WAITS, "ms", "members: SyncGroup came after_ms after joined, waited for held_ms"),
        column("sync_waits_left_out", "int32", "members", "not in sync_waits, which has the longest first"),
        column("pending", _PENDING, "ms", "handed-out member ids that the join phase waited for, the longest ones"),
        column("added", ListOf(Struct(_WHO)), "", "new members"),
        column("added_left_out", "int32", "members", "not in added"),
        column("gone", _GONE, "", "members that left (cause null) or were expelled"),
        column("gone_left_out", "int32", "members", "not in gone"),
        column(
            "partitions_assigned",
            "int32",
            "partitions",
            "assigned, or waiting for an owner, when it began",
            nullable=True,
        ),
        column("partitions_still", "int32", "partitions", "those that no member consumed for a time", nullable=True),
        column("lost_partition_ms", "int64", "ms", "sum of the times over these partitions", nullable=True),
        column("partitions", _PAUSES, "ms", "which they were and for how long, longest first"),
        column("partitions_left_out", "int32", "partitions", "not in partitions"),
    ],
)
