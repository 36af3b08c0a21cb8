"""``administration``: who changed what, or tried to."""

from __future__ import annotations

from muster.actors.tables.schemas.base import MS_UTC, column, table

ADMINISTRATION = "administration"

ADMINISTRATION_SCHEMA = table(
    ADMINISTRATION,
    1,
    "ts",
    [
        column("ts", MS_UTC, "ms", "when it was answered; of repeated attempts, the last"),
        column("gateway", "int32", "", "id of the gateway that got the request"),
        column("door", "string", "", "kafka or http"),
        column("principal", "string", "", "Type:name; User:ANONYMOUS without authentication", nullable=True),
        column("client_id", "string", "", "as the client says; null over HTTP", nullable=True),
        column("host", "string", "", "the client's address", nullable=True),
        column("api", "string", "", "Kafka's name of the API; over HTTP, method and path"),
        column(
            "resource_type",
            "string",
            "",
            "TOPIC, GROUP, CLUSTER, BROKER, USER and so on; of ACLs, what they are about; CLIENT_QUOTA, FAULT, NODE",
        ),
        column("resource", "string", "", "its name", nullable=True),
        column("error", "string", "", "Kafka's name of the error, NONE if it was done; over HTTP, the status"),
        column("detail", "string", "", "keys of configs, an ACL, quotas; never a config's value", nullable=True),
        column("times", "int64", "", "more than 1: further attempts of the same kind in one minute"),
    ],
)
