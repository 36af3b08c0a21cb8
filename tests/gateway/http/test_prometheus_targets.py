"""GET /v1/prometheus/targets, as http_sd_configs reads it."""

from __future__ import annotations

import json
from dataclasses import replace

from muster.gateway.http.prometheus import targets
from muster.placement.view import Broker, ClusterView
from tests.gateway.serving import Serving

EMPTY = ClusterView(cluster_id="c", controller_epoch=1, version=1, brokers=(), topics={}, offsets={}, logs={})
BROKER = Broker(id=1, host="h", port=1, node_id="n")


def test_every_gateway_that_serves_http() -> None:
    brokers = (
        replace(BROKER, id=2, metrics_url="https://[::1]:9100/metrics"),
        replace(BROKER, id=1, metrics_url="http://10.0.0.1:9100/metrics"),
        replace(BROKER, id=3),
    )
    assert targets(replace(EMPTY, brokers=brokers)) == [
        {"targets": ["10.0.0.1:9100"], "labels": {"__scheme__": "http", "__metrics_path__": "/metrics"}},
        {"targets": ["[::1]:9100"], "labels": {"__scheme__": "https", "__metrics_path__": "/metrics"}},
    ]


def test_it_is_json(full: Serving) -> None:
    status, text = full.http("/v1/prometheus/targets")
    assert (status, json.loads(text)) == (200, targets(full.gateway.view))
