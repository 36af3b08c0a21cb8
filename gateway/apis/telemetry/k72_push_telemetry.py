"""PushTelemetry (api key 72), v0 (KIP-714): a client's metrics, which are in this gateway's /metrics from then on.

The label ``group`` is the group that the connection, or all clients of that host and client id, are known to work for.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from muster.actors.log.errors import LogError
from muster.actors.log.format.compression import CODECS, decompress
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import UNGUARDED
from muster.gateway.apis.telemetry.k71_get_telemetry_subscriptions import client_of
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.telemetry.instances import Refused
from muster.gateway.telemetry.otlp import Point, Unreadable, read_metrics

_MAX_DECOMPRESSED_BYTES = 4 << 20
"""Or telemetry.max.bytes, if that is more. What it holds takes up to a hundred times as much memory."""
_RESERVED = UUID(int=1)


@api(72, "PushTelemetry", guard=UNGUARDED, error_body=lambda _, error: {"error_code": error})
async def push_telemetry(call: Call) -> Reply | None:
    error = await _pushed(call)
    call.gateway.metrics.client_pushed(error.name.upper())
    return call.reply({"throttle_time": 0, "error_code": error})


async def _pushed(call: Call) -> ErrorCode:
    request, gateway = call.entity(), call.gateway
    instance_id: UUID | None = request.client_instance_id
    if instance_id is None or instance_id == _RESERVED:
        return ErrorCode.invalid_request
    client, metrics = client_of(call, instance_id), bytes(request.metrics or b"")
    error = ErrorCode.none
    if request.compression_type not in CODECS:
        error = ErrorCode.unsupported_compression_type
    elif len(metrics) > gateway.config.telemetry_max_bytes:
        error = ErrorCode.telemetry_too_large
    try:
        gateway.client_instances.push(
            client, request.subscription_id, gateway.now_ms(), is_last=request.terminating, error=error
        )
    except Refused as refused:
        return refused.code
    if metrics:
        try:
            limit_bytes = max(_MAX_DECOMPRESSED_BYTES, gateway.config.telemetry_max_bytes)
            async with gateway.pushing:
                points = await asyncio.to_thread(_read, request.compression_type, metrics, limit_bytes)
        except (LogError, Unreadable):
            gateway.client_instances.failed(instance_id, ErrorCode.invalid_record)
            return ErrorCode.invalid_record
        connection, client_id = call.connection, call.header.client_id
        group = gateway.account.group_of(connection.attribution, connection.host, client_id, gateway.now_ms())
        if instance_id in gateway.client_instances:  # else it was forgotten meanwhile, and its series with it
            gateway.client_series.add(instance_id, group, client.client_id, points)
    return ErrorCode.none


def _read(codec: int, metrics: bytes, limit_bytes: int) -> list[Point]:
    """Return the points of a push. Raises LogError or Unreadable."""
    return read_metrics(decompress(codec, metrics, limit_bytes))
