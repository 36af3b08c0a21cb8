"""ApiVersions (api key 18), v0-4.

v1 throttle_time_ms | v3 flexible, name and version of the client's software (KIP-511), features (KIP-584)
A version that is not served gets the version-0 response with UNSUPPORTED_VERSION and the versions of this API, so
that the client can retry (KIP-511). The response header is v0 in every version.

Features (KIP-584): clients that know ``transaction.version`` choose the protocol of transactions by its finalized
level. Java's takes over another level only with a higher epoch of the features, which is the controller's.
``group.version`` 1 says that there are consumer groups (KIP-848); ``group.coordinator.rebalance.protocols`` does not
change it, as in Kafka.

Client telemetry (KIP-714) is in the response while there is a subscription: otherwise every client would ask in
vain, and librdkafka prints a line when it has asked.
"""

from __future__ import annotations

import re
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.cluster.features import FEATURES
from muster.gateway.apis.guards.guard import UNGUARDED
from muster.gateway.listener.api import APIS, Api, Call, Reply, api
from muster.gateway.listener.gateway import Gateway

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_OF_TELEMETRY = frozenset({71, 72})
"""GetTelemetrySubscriptions, PushTelemetry."""
_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_LOWEST_ZERO = 4
"""Clients of earlier versions fail at a lowest level of 0 (KAFKA-17011)."""


@api(codec.API_VERSIONS, "ApiVersions", guard=UNGUARDED, error_body=lambda _, error: _body(error, []))
async def api_versions(call: Call) -> Reply | None:
    own = APIS[codec.API_VERSIONS]
    if call.header.api_version not in own.versions:
        return _version_0(call, own)
    request = call.entity()
    if call.header.api_version >= _FIRST_WITH_SOFTWARE and not _names_software(request):
        return call.reply(_body(ErrorCode.invalid_request, []))
    body = _body(ErrorCode.none, offered(call.gateway))
    if call.header.api_version >= _FIRST_WITH_SOFTWARE:
        call.connection.software = (request.client_software_name, request.client_software_version)
        body |= _features(call.gateway, call.header.api_version)
    return call.reply(body)


def offered(gateway: Gateway) -> list[Api]:
    """Return the APIs that the gateway offers, by key."""
    hidden = frozenset() if gateway.client_instances.subscriptions else _OF_TELEMETRY
    return [APIS[key] for key in sorted(APIS) if key not in hidden]


def _names_software(request: Any) -> bool:
    names = (field(request, "client_software_name", ""), field(request, "client_software_version", ""))
    return all(_SOFTWARE.fullmatch(name) for name in names)


def _version_0(call: Call, own: Api) -> Reply:
    body = _body(ErrorCode.unsupported_version, [own])
    return Reply(codec.encode_response_parts(codec.API_VERSIONS, 0, call.header.correlation_id, body))


def _features(gateway: Gateway, version: int) -> dict[str, Any]:
    supported = [
        {"name": name, "min_version": feature.lowest, "max_version": feature.highest}
        for name, feature in FEATURES.items()
        if feature.lowest or version >= _FIRST_WITH_LOWEST_ZERO
    ]
    levels = {name: feature.level(gateway) for name, feature in FEATURES.items()}
    finalized = [
        {"name": name, "max_version_level": level, "min_version_level": level}
        for name, level in levels.items()
        if level
    ]
    return {
        "supported_features": supported,
        "finalized_features_epoch": gateway.view.controller_epoch,
        "finalized_features": finalized,
    }


def _body(error: ErrorCode, served: list[Api]) -> dict[str, Any]:
    return {
        "error_code": error,
        "api_keys": [
            {"api_key": each.key, "min_version": each.versions[0], "max_version": each.versions[-1]} for each in served
        ],
        "throttle_time": 0,
    }
