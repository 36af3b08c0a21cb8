"""AlterClientQuotas (api key 49), v0-1. v1 flexible.

Each entry is one change, whatever becomes of the others; the response has one for each, in their order. An entity that
occurs twice is refused each time. When the response is sent, all gateways apply what was changed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import everywhere, repeated
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER_CONFIGS, the_cluster
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.gateway.quotas.requests import BadQuotas, Operation, alteration
from muster.placement.mapping.nodes import canonical_host
from muster.placement.security.entities import IP, EntityAlteration

_EVERYWHERE_S = 3.0
_RESOLVE_S = 5.0

_Outcome = tuple[ErrorCode, str | None]


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    entries = call.entity().entries
    return _body(entries, [(error, call.reason)] * len(entries))


@api(
    49,
    "AlterClientQuotas",
    guard=Guard(Need((ALTER_CLUSTER_CONFIGS,), the_cluster)),
    error_body=_error_body,
    is_change=True,
)
async def alter_client_quotas(call: Call) -> Reply | None:
    request = call.entity()
    checked = await _check(request.entries)
    wanted = [(at, each) for at, each in enumerate(checked) if isinstance(each, EntityAlteration)]
    outcomes: list[_Outcome] = [
        (ErrorCode.none, None) if isinstance(each, EntityAlteration) else (ErrorCode.invalid_request, each)
        for each in checked
    ]
    if wanted and not request.validate_only:
        done = await _alter(call.gateway, [each for _, each in wanted])
        for (at, _), outcome in zip(wanted, done, strict=True):
            outcomes[at] = outcome
    return call.reply(_body(request.entries, outcomes))


async def _check(entries: Sequence[Any]) -> list[EntityAlteration | str]:
    """Return the alteration by each entry, or the reason for refusing it."""
    addresses = await addresses_of(
        {part.entity_name for entry in entries for part in entry.entity if part.entity_type == IP and part.entity_name}
    )
    checked: list[EntityAlteration | str] = []
    for entry in entries:
        parts = [(part.entity_type, part.entity_name) for part in entry.entity]
        try:
            checked.append(alteration(parts, [Operation(*_fields(op)) for op in entry.ops], addresses.get))
        except BadQuotas as error:
            checked.append(str(error))
    twice = repeated(each.entity for each in checked if isinstance(each, EntityAlteration))
    return [
        "The request has more than one entry for this entity"
        if isinstance(each, EntityAlteration) and each.entity in twice
        else each
        for each in checked
    ]


def _fields(operation: Any) -> tuple[str, float, bool]:
    return operation.key, operation.value, operation.remove


async def addresses_of(hosts: set[str]) -> dict[str, str]:
    """Return the addresses of resolvable hosts. Kafka, too, accepts the name of a host."""
    found = await asyncio.gather(*(_address(host) for host in sorted(hosts)))
    return {host: address for host, address in zip(sorted(hosts), found, strict=True) if address is not None}


async def _address(host: str) -> str | None:
    try:
        return canonical_host(str(ipaddress.ip_address(host)))
    except ValueError:
        pass
    try:
        async with asyncio.timeout(_RESOLVE_S):
            infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return None
    return canonical_host(str(infos[0][4][0]))


async def _alter(gateway: Gateway, alterations: Sequence[EntityAlteration]) -> list[_Outcome]:
    try:
        outcomes = await gateway.controller.alter_entities(alterations)
    except ControllerUnavailable:
        return [(ErrorCode.request_timed_out, "The controller did not answer in time.")] * len(alterations)
    await everywhere(gateway, _EVERYWHERE_S)
    return [(ErrorCode(outcome.error), outcome.message) for outcome in outcomes]


def _body(entries: Sequence[Any], outcomes: Sequence[_Outcome]) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "entries": [
            {
                "error_code": error,
                "error_message": message,
                "entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity],
            }
            for entry, (error, message) in zip(entries, outcomes, strict=True)
        ],
    }
