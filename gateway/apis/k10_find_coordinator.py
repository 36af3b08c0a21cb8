"""FindCoordinator (api key 10), v0-6.

Names the gateway on the node where the group's actor runs, and starts the actor if it never ran. Since any
gateway forwards for any group, an answer never goes stale in a way that hurts. Share groups (key type 2)
and transactions (1) are not served. For the latter TRANSACTIONAL_ID_AUTHORIZATION_FAILED is what every client
reports at once; librdkafka asks on after INVALID_REQUEST until init_transactions() times out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from actors.wire.codec import ErrorCode, field
from gateway.registry import Call, Reply, api

GROUP, TRANSACTION = 0, 1
_NOT_SERVED = {TRANSACTION: ErrorCode.transactional_id_authorization_failed}
_START_S = 15.0
"""How long a first FindCoordinator waits for the group's actor to start."""


@api(10, "FindCoordinator")
async def find_coordinator(call: Call) -> Reply | None:
    request = call.entity()
    keys = field(request, "coordinator_keys", None)
    batched = keys is not None
    key_type = field(request, "key_type", GROUP)
    found = await asyncio.gather(*(_find(call, key, key_type) for key in (keys if batched else [request.key])))
    if batched:
        return call.reply({"throttle_time": 0, "coordinators": found})
    (only,) = found
    if only["error_message"] is None and only["error_code"]:
        only["error_message"] = ErrorCode(only["error_code"]).name
    return call.reply({"throttle_time": 0, **only})


async def _find(call: Call, key: str, key_type: int) -> dict[str, Any]:
    if key_type != GROUP:
        error = _NOT_SERVED.get(key_type, ErrorCode.invalid_request)
        return _failed(key, error, f"coordinators of key type {key_type} are not served")
    gateway = call.gateway
    partition = gateway.partition_of(key)
    started = await gateway.coordinator_ready(partition, _START_S)
    broker = gateway.view.coordinator_of(partition)
    if broker is None or not (started or partition in gateway.view.offsets):
        return _failed(key, ErrorCode.coordinator_not_available, None)
    return {
        "key": key,
        "node_id": broker.id,
        "host": broker.host,
        "port": broker.port,
        "error_code": ErrorCode.none,
        "error_message": None,
    }


def _failed(key: str, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": message}
