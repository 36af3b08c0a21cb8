"""``samples_minutes``: roll-ups of finished files of ``samples``. Not a table: such a file sums up what its source has.

One row is everything that one file has of one gateway, client, attribution and partition: sums by the minute, the union
of its offsets as runs, and sums by the block of offsets in which a sample begins. The file of a roll-up is named as its
source, and its metadata has the size of that (:mod:`muster.actors.tables.rollups.files`).
"""

from __future__ import annotations

from muster.actors.tables.schemas.base import MS_UTC, ListOf, Struct, column, table

MINUTES = "samples_minutes"
MINUTES_VERSION = 1
BLOCK_OFFSETS = 4096
"""The number of offsets of a block, a power of two. Block n begins at offset n times this."""

_SUMS = [("messages", "int64"), ("bytes", "int64")]

MINUTES_SCHEMA = table(
    MINUTES,
    MINUTES_VERSION,
    "began",
    [
        column("began", MS_UTC, "ms", "when the hour of the file began"),
        column("gateway", "int32", "broker id", "as in samples"),
        column("group", "string", "", "as in samples", nullable=True),
        column("member_id", "string", "", "as in samples", nullable=True),
        column("client_id", "string", "", "as in samples", nullable=True),
        column("host", "string", "", "as in samples"),
        column("topic", "string", "", "as in samples"),
        column("partition", "int32", "", "as in samples"),
        column("reason", "string", "", "as in samples", nullable=True),
        column("messages", "int64", "records", "sum over the samples"),
        column("bytes", "int64", "bytes", "sum over the samples"),
        column(
            "minutes", ListOf(Struct([("minute", "int32"), *_SUMS])), "", "of the samples that begin in it, 0 to 59"
        ),
        column(
            "runs",
            ListOf(Struct([("first_offset", "int64"), ("last_offset", "int64"), *_SUMS])),
            "",
            "the union of the samples' offsets, as runs that do not touch, in order",
        ),
        column(
            "blocks",
            ListOf(Struct([("block", "int64"), ("offsets", "int64"), ("bytes", "int64")])),
            "",
            "of the samples whose first offset is in it; offsets: the sum of their lengths",
        ),
    ],
)
