"""``group_events`` and ``registrations``: what happened to groups, and which client consumed for which group when."""

from __future__ import annotations

import pyarrow as pa

from actors.tables.schemas.base import MS_UTC, column, table

GROUP_EVENTS = "group_events"
REGISTRATIONS = "registrations"

GROUP_EVENTS_SCHEMA = table(
    GROUP_EVENTS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when it happened, by the clock of the coordinator"),
        column("offsets_partition", pa.int32(), "", "the partition of __consumer_offsets of the group"),
        column("epoch", pa.int32(), "", "leader epoch of the coordinator"),
        column("number", pa.int64(), "", "counts the events of that coordinator from 1; unique with the two before"),
        column("group", pa.string(), "", "consumer group"),
        column(
            "event",
            pa.string(),
            "",
            "member_added, member_left, member_removed, static_member_replaced, generation, assignment, restored, "
            "group_removed",
        ),
        column("generation", pa.int32(), "", "of the group afterwards; null if not known", nullable=True),
        column("members", pa.int32(), "members", "of the group afterwards; null if not known", nullable=True),
        column("member_id", pa.string(), "", "of whom it is about; null if of none", nullable=True),
        column("client_id", pa.string(), "", "of that member, as in the request header", nullable=True),
        column("host", pa.string(), "", "of that member, canonical, without port", nullable=True),
        column("group_instance_id", pa.string(), "", "of that member, if it is static", nullable=True),
        column("reason", pa.string(), "", "why the member left or was removed", nullable=True),
        column("protocol", pa.string(), "", "of a generation: the assignor", nullable=True),
    ],
)

REGISTRATIONS_SCHEMA = table(
    REGISTRATIONS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "from when it holds, by the clock of the coordinator"),
        column("offsets_partition", pa.int32(), "", "the partition of __consumer_offsets of the group"),
        column("epoch", pa.int32(), "", "leader epoch of the coordinator"),
        column("sequence", pa.int64(), "", "of two rows of one member the higher (epoch, sequence) is the later"),
        column("event", pa.string(), "", "registered, withdrawn"),
        column("group", pa.string(), "", "consumer group"),
        column("member_id", pa.string(), "", "with the group, what is registered; names the client if it is simple"),
        column("kind", pa.string(), "", "member, simple; null where withdrawn", nullable=True),
        column("client_id", pa.string(), "", "as in the request header; null and empty are different", nullable=True),
        column("host", pa.string(), "", "canonical, without port; null where withdrawn", nullable=True),
        column("principal", pa.string(), "", "of its connection; null if not known", nullable=True),
        column("generation", pa.int32(), "", "null where withdrawn", nullable=True),
        column(
            "partitions",
            pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())])),
            "",
            "assigned to the member; null if not known",
            nullable=True,
        ),
    ],
)
