"""``repairs``, ``lifecycle`` and ``faults``: what the cluster did to itself and what was done to it."""

from __future__ import annotations

from muster.actors.tables.schemas.base import MS_UTC, column, table

REPAIRS = "repairs"
LIFECYCLE = "lifecycle"
FAULTS = "faults"

REPAIRS_SCHEMA = table(
    REPAIRS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when the reconciler wrote, or would have written"),
        column("round", "int64", "", "counts the reconciler's rounds since its start"),
        column("kind", "string", "", "as in the metric of repairs: what was done to the node"),
        column("dry_run", "bool", "", "whether it was planned only"),
        column("outcome", "string", "", "done, superseded (the node had changed), refused (by ZooKeeper), planned"),
        column("path", "string", "", "of the node in ZooKeeper"),
        column("group", "string", "", "consumer group; null if the node does not tell", nullable=True),
        column("member_id", "string", "", "null if the node does not tell", nullable=True),
        column("diverged", MS_UTC, "ms", "when the reconciler saw the difference first", nullable=True),
    ],
)

LIFECYCLE_SCHEMA = table(
    LIFECYCLE,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when it happened, by the clock of who saw it"),
        column(
            "actor",
            "string",
            "",
            "name of the actor: controller, reconciler, gateway-1, log-0, offsets-7, transactions-2",
        ),
        column("kind", "string", "", "controller, reconciler, gateway, log, offsets, transactions, standby"),
        column(
            "event",
            "string",
            "",
            "lost (it does not answer or its process is gone), starting, serving, moved, stopped",
        ),
        column("seen_by", "string", "", "the actor that wrote the row"),
        column("node_id", "string", "", "Ray node of the actor; null if not known", nullable=True),
        column("epoch", "int32", "", "leader epoch or controller epoch; null if it has none", nullable=True),
        column("pid", "int64", "", "process; null if not known", nullable=True),
        column("reason", "string", "", "why, where something says so", nullable=True),
    ],
)

FAULTS_SCHEMA = table(
    FAULTS,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when it happened"),
        column("fault", "string", "", "the fault's id"),
        column("event", "string", "", "injected, fired, cleared, expired"),
        column("action", "string", "", "kill, pause, continue, slow, error, no-answer, drop, delay, close"),
        column("actor", "string", "", "the actor that it is about or that it fired in", nullable=True),
        column("api", "string", "", "Kafka's name of the API, of a fault of requests", nullable=True),
        column("group", "string", "", "of the request, or of the fault's scope", nullable=True),
        column("member_id", "string", "", "of the request, or of the fault's scope", nullable=True),
        column("client_id", "string", "", "of the request, or of the fault's scope", nullable=True),
        column("detail", "string", "", "the rest, as the fault is listed", nullable=True),
    ],
)
