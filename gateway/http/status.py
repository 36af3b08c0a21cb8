"""The cluster as its own actors report it; a gateway keeps no report that could be out of date.

``GET /v1/status``: the nodes and actors as the controller sees them now, as ``muster status --json`` prints them.
``GET /v1/mapping``: what the reconciler compared and repaired in ZooKeeper: ``{"rounds", "skipped_rounds",
"failed_rounds", "last_round_took_ms", "divergence": {DIFFERENCE_KIND: N}, "divergent_for_ms", "repairs": {ACTION_KIND:
N}, "suspects", "dry_run", "zookeeper_connected", "trouble", "registrations"}``. Counts are since the reconciler
started, ``divergence`` is that of the last round, and ``registrations`` are those that this gateway knows.

503 if the controller, or the reconciler, does not respond.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from muster.gateway.http.groups import Failed, as_json
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.gateway.metrics.reconciler import Status

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 5.0
_SAME = (
    *("rounds", "skipped_rounds", "failed_rounds", "divergent_for_ms", "repairs", "suspects", "dry_run"),
    *("zookeeper_connected", "trouble"),
)


def add_routes(app: web.Application, gateway: Gateway, reconciler: Status | None) -> None:
    """Serve the routes of this module; the app has not been started yet."""

    async def status(_request: web.Request) -> dict[str, Any]:
        try:
            return await gateway.controller.status()
        except ControllerUnavailable as error:
            raise Failed(503, f"the controller does not respond: {error}") from error

    async def mapping(_request: web.Request) -> dict[str, Any]:
        if reconciler is None:
            raise Failed(503, "there is no reconciler")
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                found = await reconciler()
        except Exception as error:  # whatever Ray raises
            log.warning("the reconciler did not say how it is: %s", str(error) or type(error).__name__)
            raise Failed(503, "the reconciler does not respond") from error
        return {**mapping_of(found), "registrations": gateway.account.registrations()}

    app.router.add_get("/v1/status", as_json(status))
    app.router.add_get("/v1/mapping", as_json(mapping))


def mapping_of(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reconciler's status with the names of the route."""
    return {
        **{name: status[name] for name in _SAME},
        "divergence": status["differences"],
        "last_round_took_ms": status["last_round_ms"],
    }
