"""``commits`` and ``end_offsets``: the positions of groups and the ends of logs. Their difference is the lag.

Both are thinned: a row holds the value at the end of a flush window in which it was committed or moved, so a busy group
costs one row per partition and window, not one per commit.
"""

from __future__ import annotations

from muster.actors.tables.schemas.base import MS_UTC, column, table

COMMITS = "commits"
END_OFFSETS = "end_offsets"

COMMITS_SCHEMA = table(
    COMMITS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when the last of them was durable"),
        column("offsets_partition", "int32", "", "the partition of __consumer_offsets of the group"),
        column("epoch", "int32", "", "leader epoch of the coordinator"),
        column("group", "string", "", "consumer group"),
        column("topic", "string", "", "topic"),
        column("partition", "int32", "", "partition of the topic"),
        column("kind", "string", "", "commit, or how the offset went: expired, deleted"),
        column("offset", "int64", "offset", "the last committed one; null where it went", nullable=True),
        column("lowest", "int64", "offset", "the lowest committed one of the window", nullable=True),
        column("previous", "int64", "offset", "committed before the window; null if none", nullable=True),
        column("commits", "int64", "commits", "how many there were in the window"),
        column("generation", "int32", "", "of the last; null for a consumer outside a generation", nullable=True),
        column("member_id", "string", "", "of the last; null for a consumer outside the group", nullable=True),
        column("client_id", "string", "", "of the last, as in the request header", nullable=True),
        column("host", "string", "", "of the last, canonical, without port", nullable=True),
    ],
)

END_OFFSETS_SCHEMA = table(
    END_OFFSETS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when it stood so"),
        column("log", "int32", "", "the log actor that owns the partition"),
        column("topic", "string", "", "topic"),
        column("partition", "int32", "", "partition of the topic"),
        column("epoch", "int32", "", "leader epoch of the partition"),
        column("log_start_offset", "int64", "offset", "the first that can be read"),
        column("log_end_offset", "int64", "offset", "behind the last durable record; what ListOffsets calls latest"),
        column("last_append", MS_UTC, "ms", "when the last record was appended; null if not known", nullable=True),
        column("size_bytes", "int64", "bytes", "of the partition's segments"),
    ],
)
