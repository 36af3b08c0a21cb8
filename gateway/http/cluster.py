"""``GET /v1/cluster``: which cluster this is, its gateways, who the caller is, and what may be changed over HTTP.

``{"cluster_id", "version", "gateways": [{"id", "host", "port", "node_id", "rack", "http"}], "principal", "may_change",
"fault_injection", "may_fault", "console"}``. ``may_change`` says whether changes are enabled; each needs the rights of
its Kafka requests as well. Gateways and console are only for who may DESCRIBE the cluster.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from aiohttp import web

from muster.gateway.http.callers import current_caller
from muster.gateway.http.groups import as_json
from muster.gateway.listener.gateway import Gateway
from muster.placement.security.acls import CLUSTER_NAME, AclOperation, AclResourceType
from muster.placement.view import Broker


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def cluster(_request: web.Request) -> dict[str, Any]:
        caller = current_caller()
        sees = caller.sees_cluster()
        has_faults = gateway.faults is not None
        return {
            "cluster_id": gateway.view.cluster_id if sees else None,
            "version": version("muster-kafka"),
            "gateways": [_gateway(broker) for broker in gateway.view.brokers] if sees else [],
            "principal": caller.principal,
            "may_change": gateway.config.http_changes_enable,
            "fault_injection": has_faults,
            "may_fault": has_faults and caller.sees(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME),
            "console": gateway.view.console.url if sees and gateway.view.console is not None else None,
        }

    app.router.add_get("/v1/cluster", as_json(cluster))


def _gateway(broker: Broker) -> dict[str, Any]:
    url = broker.metrics_url
    return {
        "id": broker.id,
        "host": broker.host,
        "port": broker.port,
        "node_id": broker.node_id,
        "rack": broker.rack,
        "http": None if url is None else url.removesuffix("/metrics"),
    }
