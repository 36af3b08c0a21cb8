"""DescribeClientQuotas (api key 48), v0-1. v1 flexible.

SCRAM credentials are configs of users, too, but never in this response.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER_CONFIGS, the_cluster
from muster.gateway.apis.security.k49_alter_client_quotas import addresses_of
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.quotas.requests import BadQuotas, Component, UnknownEntityType, described
from muster.placement.security.entities import IP


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return _failed(error, call.reason)


def _failed(error: ErrorCode, message: str) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": error, "error_message": message, "entries": None}


@api(48, "DescribeClientQuotas", guard=Guard(Need((DESCRIBE_CLUSTER_CONFIGS,), the_cluster)), error_body=_error_body)
async def describe_client_quotas(call: Call) -> Reply | None:
    request = call.entity()
    addresses = await addresses_of({each.match for each in request.components if each.entity_type == IP and each.match})
    components = [
        Component(each.entity_type, each.match_type, addresses.get(each.match, each.match))
        for each in request.components
    ]
    try:
        found = described(call.gateway.view.configs.entities, components, strict=request.strict)
    except BadQuotas as error:
        return call.reply(_failed(ErrorCode.invalid_request, str(error)))
    except UnknownEntityType as error:
        return call.reply(_failed(ErrorCode.unsupported_version, str(error)))
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.parts],
            "values": [{"key": key, "value": value} for key, value in quotas.items()],
        }
        for entity, quotas in found
    ]
    return call.reply({"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "entries": entries})
