"""Shared by AlterConfigs and IncrementalAlterConfigs: which resources can be altered, the outcome, the response.

Errors of a request are checked in the order of Kafka's ConfigAdminManager, those of the configs by
``muster.actors.config.altering``. All gateways share one configuration, so any of them alters any broker, while Kafka
requires the request to go to the broker itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from muster.actors.config import ConfigError
from muster.actors.config.altering import Alteration, InvalidAlteration, Operation, configs_after
from muster.actors.config.dynamic import altered
from muster.actors.config.groups import GROUP_BYTE_RATE
from muster.actors.config.overrides import is_dynamic
from muster.actors.config.resources import ResourceType
from muster.actors.controller.admin import TopicOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import everywhere, name_error, refusal
from muster.gateway.apis.guards.resources import of_resources
from muster.gateway.listener.api import Call, Reply
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.placement.security.acls import AclOperation

_SHOWN_S = 5.0
"""How long to wait for gateways: the request has no timeout of its own."""


_ALTER_CONFIGS = 33


def _alters_quota(call: Call, resource: Any) -> bool:
    """Whether the quota of a group is altered, which is not for those who may alter its other configs alone."""
    if resource.resource_type != ResourceType.GROUP:
        return False
    sent = {config.name: config.value for config in resource.configs}
    if call.header.api_key != _ALTER_CONFIGS:
        return GROUP_BYTE_RATE in sent
    current = call.gateway.view.configs.groups.get(resource.resource_name, {})
    return sent.get(GROUP_BYTE_RATE) != current.get(GROUP_BYTE_RATE)


GUARD = of_resources(
    AclOperation.ALTER_CONFIGS,
    "responses",
    repeated_first=True,
    is_of_cluster=_alters_quota,
    of_cluster="too, for the quota of a group",
)


async def alter(call: Call, alterations: Sequence[Alteration | None]) -> Reply:
    """Alter the resources of the request, each independently; None where an operation does not exist."""
    gateway, request = call.gateway, call.entity()
    resources = request.resources
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    outcomes = [
        _refused(gateway, resource, alteration, times)
        for resource, alteration in zip(resources, alterations, strict=True)
    ]
    good = [alteration for alteration, refused in zip(alterations, outcomes, strict=True) if alteration and not refused]
    done = iter(await _carried_out(gateway, good, request.validate_only))
    return call.reply(
        {
            "throttle_time": 0,
            "responses": [
                _response(resource, outcome.error, outcome.message)
                for resource, refused in zip(resources, outcomes, strict=True)
                for outcome in (refused or next(done),)
            ],
        }
    )


def error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    """See :data:`muster.gateway.listener.api.ErrorBody`."""
    return {"responses": [_response(resource, error, call.reason) for resource in call.entity().resources]}


def _response(resource: Any, error: int, message: str | None) -> dict[str, Any]:
    return {
        "error_code": error,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


async def _carried_out(gateway: Gateway, alterations: list[Alteration], validate_only: bool) -> list[TopicOutcome]:
    refused = {
        id(each): refusal(each.name, ErrorCode.invalid_request, problem)
        for each in alterations
        if (problem := await _tls_problem(gateway, each)) is not None
    }
    done = iter(await _altered(gateway, [each for each in alterations if id(each) not in refused], validate_only))
    if not validate_only and any(map(_concerns_tls, alterations)):
        await gateway.tls.apply(gateway.config)
    return [refused.get(id(each)) or next(done) for each in alterations]


async def _altered(gateway: Gateway, alterations: list[Alteration], validate_only: bool) -> list[TopicOutcome]:
    if not alterations:
        return []
    try:
        outcomes = await gateway.controller.alter_configs(alterations, validate_only)
    except ControllerUnavailable:
        late = "The controller did not answer in time."
        return [refusal(each.name, ErrorCode.request_timed_out, late) for each in alterations]
    if not validate_only:
        await everywhere(gateway, _SHOWN_S)
    return outcomes


def _concerns_tls(alteration: Alteration) -> bool:
    """Whether it alters how a listener uses TLS."""
    return alteration.type == ResourceType.BROKER and any(is_dynamic(change.name) for change in alteration.changes)


async def _tls_problem(gateway: Gateway, alteration: Alteration) -> str | None:
    """Why the certificates of this alteration must not be used; None if they may, or there are none.

    What else may be wrong with it is the controller's to find. Certificates are looked at before anything is altered,
    and only gateways can: the controller may run on a node without the files.
    """
    if not _concerns_tls(alteration):
        return None
    configs = gateway.view.configs
    current = configs.brokers.get(int(alteration.name), {}) if alteration.name else configs.cluster
    try:
        wanted = configs_after(alteration, current, gateway.started_with, configs)
        below = configs.cluster if alteration.name else {}
        stores = {name: value for name, value in {**below, **wanted}.items() if is_dynamic(name)}
        config = altered(gateway.started_with, stores)
    except (InvalidAlteration, ConfigError):
        return None
    return await gateway.tls.refusal(config)


def _refused(
    gateway: Gateway, resource: Any, alteration: Alteration | None, times: Counter[tuple[int, str]]
) -> TopicOutcome | None:
    name = resource.resource_name
    problem = _problem(resource, alteration, times) or _bad_name(gateway, resource.resource_type, name)
    if problem is not None:
        return refusal(name, ErrorCode.invalid_request, problem)
    if resource.resource_type == ResourceType.TOPIC and (bad := name_error(name)) is not None:
        return refusal(name, ErrorCode.invalid_topic_exception, bad)
    return None


def _problem(resource: Any, alteration: Alteration | None, times: Counter[tuple[int, str]]) -> str | None:
    if times[resource.resource_type, resource.resource_name] > 1:
        return "Each resource must appear at most once."
    if len({config.name for config in resource.configs}) < len(resource.configs):
        return "Error due to duplicate config keys"
    if alteration is None:
        return "Unknown type of operation."
    without = [
        change.name for change in alteration.changes if change.value is None and change.operation != Operation.DELETE
    ]
    return f"Null value not supported for : {', '.join(without)}" if without else None


def _bad_name(gateway: Gateway, kind: int, name: str) -> str | None:
    match kind:
        case ResourceType.TOPIC:
            return None if name else "Default topic resources are not allowed."
        case ResourceType.GROUP:
            return None if name else "Default group resources are not allowed."
        case ResourceType.BROKER:
            return broker_error(gateway, name) if name else None
        case ResourceType.CLIENT_METRICS:
            return None if name else "Subscription name can't be empty"
        case ResourceType.BROKER_LOGGER:
            return "Muster has no broker loggers."
    return f"Unknown resource type {kind}"


def broker_error(gateway: Gateway, name: str) -> str | None:
    """Why this broker name gets INVALID_REQUEST; None if the broker exists.

    A broker has one name, which is the key of its configs: 1 must not be altered as 01, too.
    """
    if name in {str(gateway.id), *(str(broker.id) for broker in gateway.view.brokers)}:
        return None
    if not name.isdecimal():
        return f"Broker id must be an integer, but it is: {name}"
    return f"Unexpected broker id: there is no broker {name}"
