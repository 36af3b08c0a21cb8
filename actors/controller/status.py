"""Reports of the controller on each actor, for ``muster status``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import ray
from ray.exceptions import RayError

from muster.actors.controller.managed import Managed
from muster.actors.controller.state import ActorState
from muster.placement.host_port import host_port

_GATEWAYS_S = 2.0
"""How long a status waits for what gateways say."""


def actor_status(managed: Managed, standby: str | None) -> dict[str, Any]:
    """Return the status of an actor. ``standby``: the name of the one that serves in its place."""
    started = managed.started
    broker = started.broker if started else None
    return {
        "name": managed.name,
        "state": managed.state.value,
        "pid": started.pid if started else None,
        "node_id": started.node_id if started else None,
        "address": host_port(broker.host, broker.port) if broker else None,
        "further_addresses": {each.listener: host_port(each.host, each.port) for each in broker.further}
        if broker
        else {},
        "metrics_url": started.metrics_url if started else None,
        "restarts": max(0, managed.starts - 1),
        "error": managed.error,
        "stand_in": standby,
    }


def own_status() -> dict[str, Any]:
    """Return the status of the controller, which is this process."""
    return {
        "name": "controller",
        "state": ActorState.ALIVE.value,
        "pid": os.getpid(),
        "node_id": ray.get_runtime_context().get_node_id(),
        "address": None,
        "further_addresses": {},
        "metrics_url": None,
        "restarts": None,
        "error": None,
        "stand_in": None,
    }


async def clients_turned_away(gateways: Iterable[Managed]) -> list[dict[str, Any]]:
    """Return the clients that these gateways turn away; gateways that do not respond in time are left out."""
    serving = [gateway for gateway in gateways if gateway.is_alive]
    found = await asyncio.gather(*(_turned_away_by(gateway) for gateway in serving))
    return [{"gateway": gateway.name, **row} for gateway, rows in zip(serving, found, strict=True) for row in rows]


async def _turned_away_by(gateway: Managed) -> list[dict[str, Any]]:
    try:
        async with asyncio.timeout(_GATEWAYS_S):
            rows: list[dict[str, Any]] = await gateway.handle.turned_away.remote()
            return rows
    except (RayError, TimeoutError):
        return []
