"""Metrics of clients in a scrape: those that they push (KIP-714), and what quotas and limits do to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster.gateway.metrics.exposition import Exposition, labels
from muster.gateway.metrics.families import CLIENTS, QUOTAS
from muster.gateway.quotas.clients import GROUP_BYTE_RATE, ClientQuotas
from muster.gateway.quotas.connections import Connections
from muster.gateway.quotas.throttles import Throttled
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


class QuotasSnapshot(NamedTuple):
    """All of one moment."""

    throttled: Sequence[Throttled]
    measures: int
    exempt_s: float
    accept_throttle_s: float

    @classmethod
    def of(cls, quotas: ClientQuotas | None, connections: Connections | None) -> QuotasSnapshot:
        return cls(
            () if quotas is None else tuple(quotas.throttles),
            0 if quotas is None else len(quotas),
            0.0 if quotas is None else quotas.exempt_ns / 1e9,
            0.0 if connections is None else connections.delayed_ms / 1000,
        )


def write_quotas(out: Exposition, quotas: QuotasSnapshot) -> None:
    """Add the families of quotas."""
    out.begin(QUOTAS)
    for throttled in quotas.throttled:
        series = _shared_by(throttled)
        out.add("muster_quota_throttled_responses_total", series, throttled.responses)
        out.add("muster_quota_throttle_seconds_total", series, throttled.total_ms / 1000)
    out.add("muster_quota_measures", "", quotas.measures)
    out.add("muster_quota_exempt_request_seconds_total", "", quotas.exempt_s)
    out.add("muster_connection_accept_throttle_seconds_total", "", quotas.accept_throttle_s)


def _shared_by(throttled: Throttled) -> str:
    user, client_id = (name if isinstance(name, str) else "" for name in throttled.who or ("", ""))
    if throttled.quota == GROUP_BYTE_RATE:
        return labels(quota=throttled.quota, user="", client_id="", group=user)
    return labels(quota=throttled.quota, user=user, client_id=client_id, group="")
