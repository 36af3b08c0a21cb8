"""UnregisterBroker (api key 64), v0: a broker is registered while its gateway serves, and only then (KIP-500)."""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api


def _body(error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "error_message": message}


@api(
    64,
    "UnregisterBroker",
    guard=Guard(Need((ALTER_CLUSTER,), the_cluster)),
    error_body=lambda call, error: _body(error, call.reason),
)
async def unregister_broker(call: Call) -> Reply | None:
    broker_id, serving = call.entity().broker_id, {broker.id for broker in call.gateway.view.brokers}
    if broker_id not in serving:
        message = f"Broker ID {broker_id} is not currently registered"
        return call.reply(_body(ErrorCode.broker_id_not_registered, message))
    message = f"Broker {broker_id} serves, and is registered until it ends; muster drain moves it off its node."
    return call.reply(_body(ErrorCode.invalid_request, message))
