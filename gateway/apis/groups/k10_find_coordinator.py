"""FindCoordinator (api key 10), v0-6.

Returns the gateway on the node where the actor of the group, or of the producer's transactions, runs, and starts the
actor if it never ran. Since any gateway forwards for any of them, an outdated response does no harm. There is no
coordinator of share groups (key type 2): as from a Kafka broker without one, the response is INVALID_REQUEST.

v1-3 carry Kafka's words for the error, and "NONE" | v4 several keys; the message is "" but for an unknown key type
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.guards.guard import Each, Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, ERRORS, Names
from muster.gateway.listener.api import Call, Reply, Rule, api
from muster.placement.view import OFFSETS, TRANSACTIONS

GROUP, TRANSACTION, SHARE = 0, 1, 2
_WORDS = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
}
_START_S = 15.0
"""How long a first FindCoordinator waits for the actor to start."""


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    keys = field(call.entity(), "coordinator_keys", None)
    return (
        _failed("", error, call.reason)
        if keys is None
        else {"coordinators": [_failed(key, error, call.reason) for key in keys]}
    )


def _refused(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"coordinators": [_failed(key, error) for key in call.entity().coordinator_keys]}


def _key_of(key_type: int) -> Names:
    def names(call: Call) -> Iterable[str]:
        """Return the only key, in versions that have no array of keys."""
        request = call.entity()
        key = field(request, "key", None)
        return () if key is None or field(request, "key_type", GROUP) != key_type else (key,)

    return names


class _EachKey(Each):
    """Each key, by the type of all keys."""

    def error_of(self, call: Call, element: Any, verdicts: dict[str, bool]) -> ErrorCode | None:
        right = _RIGHTS.get(call.entity().key_type)
        return None if right is None or right.allowed(call, element) else ERRORS[right.resource]

    def rules(self) -> Sequence[Rule]:
        return [Rule((right,), "from v4 on", ERRORS[right.resource]) for right in self.rights]


_RIGHTS = {GROUP: DESCRIBE_GROUP, TRANSACTION: DESCRIBE_TRANSACTIONAL_ID}
_GUARD = Guard(
    *(Need((right,), _key_of(key_type), "up to v3") for key_type, right in _RIGHTS.items()),
    each=_EachKey((*_RIGHTS.values(),), "coordinator_keys", "coordinators", body=_refused),
)


@api(10, "FindCoordinator", guard=_GUARD, error_body=_error_body)
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
        return await _find_owner(call, key, OFFSETS, call.gateway.partition_of(key))
    if key_type == TRANSACTION:
        return await _find_owner(call, key, TRANSACTIONS, call.gateway.transactions_partition_of(key))
    if key_type == SHARE:
        return _failed(key, ErrorCode.invalid_request)
    return _failed(key, ErrorCode.invalid_request, _WORDS[ErrorCode.invalid_request])


async def _find_owner(call: Call, key: str, kind: str, partition: int) -> dict[str, Any]:
    gateway = call.gateway
    started = await gateway.coordinator_ready(partition, _START_S, kind)
    broker = gateway.view.coordinator_of(partition, kind)
    if broker is None or not (started or partition in gateway.view.owners(kind)):
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
