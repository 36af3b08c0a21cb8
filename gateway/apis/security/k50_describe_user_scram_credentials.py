"""DescribeUserScramCredentials (api key 50), v0 (KIP-554): users of ZooKeeper with their mechanisms and iterations.

Neither salts nor keys, and no users of sasl.credentials.file, which no request can alter.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.security.scram_users import Described, describe


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "error_message": call.reason, "results": []}


@api(50, "DescribeUserScramCredentials", guard=Guard(Need((DESCRIBE_CLUSTER,), the_cluster)), error_body=_error_body)
async def describe_user_scram_credentials(call: Call) -> Reply | None:
    users = call.entity().users
    described = describe(call.gateway.view.configs.entities, [each.name for each in users] if users else None)
    return call.reply(
        {
            "throttle_time": 0,
            "error_code": ErrorCode.none,
            "error_message": None,
            "results": [_result(each) for each in described],
        }
    )


def _result(described: Described) -> dict[str, Any]:
    refusal = described.refusal
    return {
        "user": described.user,
        "error_code": ErrorCode.none if refusal is None else refusal.error,
        "error_message": None if refusal is None else refusal.message,
        "credential_infos": [
            {"mechanism": mechanism, "iterations": iterations} for mechanism, iterations in described.iterations
        ],
    }
