"""The metrics that clients push, in a scrape (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import CLIENTS
from muster.gateway.telemetry.series import Series


class ClientsSnapshot(NamedTuple):
    """All of one moment."""

    series: Sequence[Series]
    instances: int
    pushes: Mapping[str, int]
    """By Kafka's name of the error."""
    left_out: int


def write_clients(out: Exposition, clients: ClientsSnapshot) -> None:
    """Add the families of clients."""
    out.begin(CLIENTS)
    for instance_id, group, client_id, key, value in clients.series:
        name = "muster_client_metric_total" if key.is_counter else "muster_client_metric_value"
        series = labels(
            group=group,
            client_id=client_id,
            client_instance_id=str(instance_id),
            metric=key.metric,
            attributes=key.attributes,
        )
        out.add(name, series, value)
    out.add("muster_client_instances", "", clients.instances)
    for error, count in clients.pushes.items():
        out.add("muster_client_metric_pushes_total", labels(error=error), count)
    out.add("muster_client_metric_points_left_out_total", "", clients.left_out)
