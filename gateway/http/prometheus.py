"""``GET /v1/prometheus/targets``: every gateway, as Prometheus' ``http_sd_configs`` reads it.

``[{"targets": ["HOST:PORT"], "labels": {"__scheme__": "http", "__metrics_path__": "/metrics"}}]``. Any gateway
responds, with all gateways of the view that it has: one that starts or ends is there, or gone, with the next view.
https://prometheus.io/docs/prometheus/latest/http_sd/
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from muster.gateway.listener.gateway import Gateway
from muster.placement.view import ClusterView


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def serve(_request: web.Request) -> web.Response:
        return web.json_response(targets(gateway.view))

    app.router.add_get("/v1/prometheus/targets", serve)


def targets(view: ClusterView) -> list[dict[str, Any]]:
    """Return a group of targets for each gateway: their paths may differ."""
    found = []
    for broker in sorted(view.brokers, key=lambda broker: broker.id):
        if broker.metrics_url is not None:
            url = urlsplit(broker.metrics_url)
            labels = {"__scheme__": url.scheme, "__metrics_path__": url.path}
            found.append({"targets": [url.netloc], "labels": labels})
    return found
