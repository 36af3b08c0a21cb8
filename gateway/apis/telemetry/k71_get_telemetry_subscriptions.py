"""GetTelemetrySubscriptions (api key 71), v0 (KIP-714): which of its metrics a client pushes, and how often."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from muster.actors.log.format.compression import GZIP, LZ4, SNAPPY, ZSTD
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import UNGUARDED
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.telemetry.instances import Refused
from muster.gateway.telemetry.subscriptions import Client, Wanted

_NO_SUBSCRIPTION = Wanted(0, (), 0)
ACCEPTED = (ZSTD, LZ4, GZIP, SNAPPY)
"""Codecs of pushed metrics, the preferred one first."""


def client_of(call: Call, instance_id: UUID) -> Client:
    """Return the client, as subscriptions match it."""
    connection = call.connection
    client_id = call.header.client_id or ""
    return Client(instance_id, client_id, *connection.software, connection.host, connection.port)


@api(
    71,
    "GetTelemetrySubscriptions",
    guard=UNGUARDED,
    error_body=lambda call, error: _body(call, error, None, _NO_SUBSCRIPTION),
)
async def get_telemetry_subscriptions(call: Call) -> Reply | None:
    gateway = call.gateway
    client = client_of(call, call.entity().client_instance_id or uuid4())
    try:
        wanted = gateway.client_instances.subscribe(client, gateway.now_ms())
    except Refused as refused:
        return call.reply(_body(call, refused.code, None, _NO_SUBSCRIPTION))
    return call.reply(_body(call, ErrorCode.none, client.client_instance_id, wanted))


def _body(call: Call, error: ErrorCode, instance_id: UUID | None, wanted: Wanted) -> dict[str, Any]:
    failed = error is not ErrorCode.none
    return {
        "throttle_time": 0,
        "error_code": error,
        "client_instance_id": instance_id,
        "subscription_id": wanted.subscription_id,
        "accepted_compression_types": () if failed else ACCEPTED,
        "push_interval": wanted.interval_ms,
        "telemetry_max_bytes": 0 if failed else call.gateway.config.telemetry_max_bytes,
        "delta_temporality": not failed,
        "requested_metrics": wanted.metrics,
    }
