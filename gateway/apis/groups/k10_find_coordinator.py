"""FindCoordinator (api key 10), v0-6.

Returns the gateway on the node where the group's actor runs, and starts the actor if it never ran. Since any gateway
forwards for any group, an outdated response does no harm. There is no coordinator of share groups (key type 2): as
from a Kafka broker without one, the response is INVALID_REQUEST. There is none of transactions (1) either, which a
transactional producer requests first. librdkafka, which uses v2 at most, retries most errors until
init_transactions() times out; TRANSACTIONAL_ID_AUTHORIZATION_FAILED ends it at once, with the message given here.
Other clients stop at any error that is not retriable; Java's shows the message of most errors, but not of that one.

v1-3 carry Kafka's words for the error, and "NONE" | v4 several keys; the message is "" but for an unknown key type
"""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.apis.transactions import NOT_SERVED, log_refusal
from muster.gateway.listener.registry import INJECTED, Call, Reply, api

GROUP, TRANSACTION, SHARE = 0, 1, 2
_WORDS = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.transactional_id_authorization_failed: NOT_SERVED,
    ErrorCode.unsupported_version: NOT_SERVED,
    ErrorCode.invalid_request: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
}
_LAST_OF_LIBRDKAFKA = 2
_START_S = 15.0
"""How long a first FindCoordinator waits for the group's actor to start."""


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    keys = field(call.entity(), "coordinator_keys", None)
    return (
        _failed("", error, INJECTED)
        if keys is None
        else {"coordinators": [_failed(key, error, INJECTED) for key in keys]}
    )


@api(10, "FindCoordinator", error_body=_error_body)
async def find_coordinator(call: Call) -> Reply | None:
    request = call.entity()
    keys = field(request, "coordinator_keys", None)
    key_type = field(request, "key_type", GROUP)
    if keys is None:
        only = await _find(call, request.key, key_type)
        return call.reply({"throttle_time": 0, **only, "error_message": _WORDS[only["error_code"]]})
    found = await asyncio.gather(*(_find(call, key, key_type) for key in keys))
    return call.reply({"throttle_time": 0, "coordinators": found})


async def _find(call: Call, key: str, key_type: int) -> dict[str, Any]:
    if key_type == GROUP:
        return await _find_group(call, key)
    if key_type == SHARE:
        return _failed(key, ErrorCode.invalid_request)
    if key_type == TRANSACTION:
        log_refusal(call, key)
        is_old = call.header.api_version <= _LAST_OF_LIBRDKAFKA
        error = ErrorCode.transactional_id_authorization_failed if is_old else ErrorCode.unsupported_version
        return _failed(key, error, _WORDS[error])
    return _failed(key, ErrorCode.invalid_request, _WORDS[ErrorCode.invalid_request])


async def _find_group(call: Call, key: str) -> dict[str, Any]:
    gateway = call.gateway
    partition = gateway.partition_of(key)
    started = await gateway.coordinator_ready(partition, _START_S)
    broker = gateway.view.coordinator_of(partition)
    if broker is None or not (started or partition in gateway.view.offsets):
        return _failed(key, ErrorCode.coordinator_not_available)
    address = broker.at(call.connection.listener.name)
    return {
        "key": key,
        "node_id": broker.id,
        "host": address.host,
        "port": address.port,
        "error_code": ErrorCode.none,
        "error_message": "",
    }


def _failed(key: str, error: ErrorCode, message: str = "") -> dict[str, Any]:
    return {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": message}
