"""``group_events`` and ``registrations``: what happened to groups, and which client consumed for which group when.

``registrations`` alone shows which registrations held at a time T. A coordinator writes a snapshot when it begins to
serve and every ``metrics.registrations.snapshot.ms`` after that: a ``registered`` row for each registration that holds,
and then one ``snapshot`` row, all with the same ``ts``. For each ``offsets_partition``:

1. of its ``snapshot`` rows with ``ts <= T``, take the one with the highest (``epoch``, ``ts``);
2. of the rows of that epoch from that ``ts`` to T, take, for each (``group``, ``member_id``), the one with the highest
   ``sequence``;
3. those that are ``registered`` held at T.

As intervals: a ``registered`` row holds from its ``ts`` until the next row, by (``sequence``, ``ts``), of the same
``offsets_partition``, ``epoch``, ``group`` and ``member_id``, and at most until the first ``snapshot`` row of a higher
epoch. So what a coordinator lost with its process (clients without membership, members of a generation that is not in
the log) ends with the next coordinator's snapshot, and rows of a deposed coordinator that does not know it are ignored.
A query about times from T on reads from one snapshot interval before T.
"""

from __future__ import annotations

from muster.actors.tables.schemas.base import MS_UTC, ListOf, Struct, column, table

GROUP_EVENTS = "group_events"
REGISTRATIONS = "registrations"

GROUP_EVENTS_SCHEMA = table(
    GROUP_EVENTS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when it happened, by the clock of the coordinator"),
        column("offsets_partition", "int32", "", "the partition of __consumer_offsets of the group"),
        column("epoch", "int32", "", "leader epoch of the coordinator"),
        column("number", "int64", "", "counts the events of that coordinator from 1; unique with the two before"),
        column("group", "string", "", "consumer group"),
        column(
            "event",
            "string",
            "",
            "member_added, member_left, member_removed, static_member_replaced, generation, assignment, restored, "
            "converted, group_removed; of a consumer group, generation is an epoch, and assignment a target",
        ),
        column("generation", "int32", "", "of the group afterwards; null if not known", nullable=True),
        column("members", "int32", "members", "of the group afterwards; null if not known", nullable=True),
        column("member_id", "string", "", "of whom it is about; null if of none", nullable=True),
        column("client_id", "string", "", "of that member, as in the request header", nullable=True),
        column("host", "string", "", "of that member, canonical, without port", nullable=True),
        column("group_instance_id", "string", "", "of that member, if it is static", nullable=True),
        column("reason", "string", "", "why the member left or was removed", nullable=True),
        column(
            "protocol",
            "string",
            "",
            "of a generation, or of the assignment of a consumer group: the assignor; of converted: consumer, classic",
            nullable=True,
        ),
        column(
            "replaced_member_id",
            "string",
            "",
            "of static_member_replaced: the id that the member had before",
            nullable=True,
        ),
    ],
)

REGISTRATIONS_SCHEMA = table(
    REGISTRATIONS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when it was said, by the clock of the coordinator; from then on it holds"),
        column("offsets_partition", "int32", "", "the partition of __consumer_offsets of the group"),
        column("epoch", "int32", "", "leader epoch of the coordinator"),
        column("sequence", "int64", "", "of two rows of one member the higher (epoch, sequence) is the later"),
        column("event", "string", "", "registered, withdrawn; snapshot: what holds was said again, at the same ts"),
        column("group", "string", "", "consumer group; empty in a snapshot row"),
        column(
            "member_id",
            "string",
            "",
            "with the group, what is registered; names the client if it is simple; empty in a snapshot row",
        ),
        column("kind", "string", "", "member, simple; null unless registered", nullable=True),
        column("client_id", "string", "", "as in the request header; null and empty are different", nullable=True),
        column("host", "string", "", "canonical, without port; null unless registered", nullable=True),
        column("principal", "string", "", "of its connection; null if not known", nullable=True),
        column("generation", "int32", "", "of the member; null if it is none", nullable=True),
        column(
            "partitions",
            ListOf(Struct([("topic", "string"), ("partition", "int32")])),
            "",
            "assigned to the member; null if not known",
            nullable=True,
        ),
        column(
            "offsets_partitions",
            "int32",
            "partitions",
            "of __consumer_offsets in all; in a snapshot row, null in others",
            nullable=True,
        ),
    ],
)
