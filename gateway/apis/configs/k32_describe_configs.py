"""DescribeConfigs (api key 32), v1-4, of topics, brokers, groups, client metrics. Kafka has removed v0 (KIP-896).

v1 sources and synonyms (KIP-226) | v3 type and documentation (KIP-569) | v4 flexible
All gateways share one configuration, so any of them describes any broker, while Kafka requires the request to go to
the broker itself. The empty broker name is Kafka's default for all brokers: what was set for the whole cluster.
A group or a subscription of client metrics need not exist: its configs are then the defaults, as in Kafka. Broker
loggers are refused one by one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from muster.actors.config import (
    ConfigRow,
    describe_broker,
    describe_client_metrics,
    describe_coordinator_topic,
    describe_default_broker,
    describe_group,
    describe_topic,
)
from muster.actors.config.resources import ResourceType
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.admin import name_error
from muster.gateway.apis.configs.altering import broker_error
from muster.gateway.apis.guards.resources import of_resources
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.gateway import Gateway
from muster.placement.security.acls import AclOperation
from muster.placement.view import COORDINATORS

_AT_ONCE = 4
"""Resources that are described without others having their turns: a broker has some 160 configs."""


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"results": [_response(resource, error, call.reason, []) for resource in call.entity().resources]}


@api(32, "DescribeConfigs", guard=of_resources(AclOperation.DESCRIBE_CONFIGS, "results"), error_body=_error_body)
async def describe_configs(call: Call) -> Reply | None:
    request = call.entity()
    call.is_large = call.is_large or len(request.resources) > _AT_ONCE
    results = await call.each(request.resources, partial(_result, call.gateway, request))
    return call.reply({"throttle_time": 0, "results": results})


def _result(gateway: Gateway, request: Any, resource: Any) -> dict[str, Any]:
    try:
        rows = _rows(gateway, resource)
    except _Refused as refused:
        return _response(resource, refused.error, refused.message, [])
    return _response(
        resource, ErrorCode.none, None, [_config(row, request) for row in rows if _is_requested(resource, row)]
    )


def _response(resource: Any, error: ErrorCode, message: str | None, configs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "error_code": error,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": configs,
    }


def _rows(gateway: Gateway, resource: Any) -> list[ConfigRow]:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic_rows(gateway, name)
        case ResourceType.BROKER:
            return _broker_rows(gateway, name)
        case ResourceType.GROUP:
            _refuse_empty(name, "Group name must not be empty")
            return describe_group(gateway.view.configs.groups.get(name, {}), gateway.config)
        case ResourceType.CLIENT_METRICS:
            _refuse_empty(name, "Client metrics subscription name must not be empty")
            return describe_client_metrics(gateway.view.configs.client_metrics.get(name, {}))
    raise _Refused(ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}")


def _refuse_empty(name: str, message: str) -> None:
    if not name:
        raise _Refused(ErrorCode.invalid_request, message)


def _topic_rows(gateway: Gateway, name: str) -> list[ConfigRow]:
    if (problem := name_error(name)) is not None:
        raise _Refused(ErrorCode.invalid_topic_exception, problem)
    topic = gateway.view.topics.get(name)
    if topic is None:
        raise _Refused(ErrorCode.unknown_topic_or_partition)
    if name in COORDINATORS:
        return describe_coordinator_topic(name, gateway.started_with, topic.config, gateway.view.configs)
    return describe_topic(gateway.started_with, topic.config, gateway.view.configs)


def _broker_rows(gateway: Gateway, name: str) -> list[ConfigRow]:
    configs = gateway.view.configs
    if not name:
        return describe_default_broker(gateway.started_with, configs)
    if (problem := broker_error(gateway, name)) is not None:
        raise _Refused(ErrorCode.invalid_request, problem)
    return describe_broker(gateway.started_with, configs, int(name))


def _is_requested(resource: Any, row: ConfigRow) -> bool:
    return not resource.configuration_keys or row.name in resource.configuration_keys


def _config(row: ConfigRow, request: Any) -> dict[str, Any]:
    documentation = row.documentation if field(request, "include_documentation", False) else None
    return {
        "name": row.name,
        "value": row.value,
        "read_only": row.read_only,
        "config_source": int(row.source),
        "is_sensitive": row.is_sensitive,
        "synonyms": [{"name": name, "value": value, "source": int(source)} for name, value, source in row.synonyms]
        if request.include_synonyms
        else [],
        "config_type": int(row.type),
        "documentation": documentation,
    }
