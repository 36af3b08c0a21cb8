"""ListConfigResources (api key 74), v0-1: the resources that have configs, by type.

v0 client metrics only (KIP-714) | v1 any types; without a list, all (KIP-1142)
Topics and brokers are listed whether or not a config is set on them, groups and client metrics only if one is. Muster
has no broker loggers.
"""

from __future__ import annotations

from muster.actors.config.resources import ResourceType
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER_CONFIGS, the_cluster
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.gateway import Gateway


@api(
    74,
    "ListConfigResources",
    guard=Guard(Need((DESCRIBE_CLUSTER_CONFIGS,), the_cluster)),
    error_body=lambda _, error: {"error_code": error, "config_resources": []},
)
async def list_config_resources(call: Call) -> Reply | None:
    requested = set(field(call.entity(), "resource_types", ())) or set(ResourceType)
    if call.header.api_version == 0:
        requested = {ResourceType.CLIENT_METRICS}
    is_known = requested <= set(ResourceType)
    found = [(kind, name) for kind in ResourceType if kind in requested for name in _names(call.gateway, kind)]
    return call.reply(
        {
            "throttle_time": 0,
            "error_code": ErrorCode.none if is_known else ErrorCode.unsupported_version,
            "config_resources": [{"resource_type": int(kind), "resource_name": name} for kind, name in found]
            if is_known
            else [],
        }
    )


def _names(gateway: Gateway, kind: ResourceType) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return list(gateway.view.topics)
        case ResourceType.BROKER:
            return [str(broker.id) for broker in gateway.view.brokers]
        case ResourceType.GROUP:
            return sorted(gateway.view.configs.groups)
        case ResourceType.CLIENT_METRICS:
            return sorted(gateway.view.configs.client_metrics)
    return []
