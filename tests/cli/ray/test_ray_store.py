"""Ray's key-value store is private to Ray: a cluster starts and stops without it, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.experimental import internal_kv

from muster.actors.config import MusterConfig
from muster.actors.runtime.settings import ClusterSettings
from muster.gateway import cluster

URL = "http://127.0.0.1:9404/metrics"


@pytest.fixture(autouse=True)
def a_ray_whose_store_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's functions are replaced: no Ray without a store can be had."""

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError("unexpected keyword argument 'namespace'")

    monkeypatch.setattr(internal_kv, "_internal_kv_put", refuse)
    monkeypatch.setattr(internal_kv, "_internal_kv_del", refuse)


def test_a_cluster_that_serves_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    address = SimpleNamespace(host="127.0.0.1", port=9092)
    gateway = {"broker": SimpleNamespace(host="127.0.0.1", port=9092, at=lambda _: address), "metrics_url": URL}
    method = SimpleNamespace(remote=lambda: [gateway])
    monkeypatch.setattr(cluster, "head_node_id", lambda: None)
    monkeypatch.setattr(cluster, "detached", lambda *_, **__: SimpleNamespace(start=method, ready=method))
    monkeypatch.setattr(ray, "get", lambda found, **_: found)
    settings = ClusterSettings(
        config=MusterConfig.model_validate({}),
        storage="/storage",
        cluster_id="own",
        zookeeper="127.0.0.1:2181",
        host=None,
        gateway_ports=None,
        metrics_ports=None,
        metrics_port=0,
    )
    assert cluster.start_cluster(settings, lambda _: None).metrics == (URL,)


def test_every_actor_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_actor(name: str, namespace: str) -> None:
        raise ValueError(name)

    killed: list[str] = []
    monkeypatch.setattr(ray, "get_actor", no_actor)
    monkeypatch.setattr(cluster, "_actors", lambda _: ["gateway-0", "controller"])
    monkeypatch.setattr(cluster, "_kill", lambda name, _: killed.append(name))
    cluster.stop_cluster()
    assert killed == ["controller", "gateway-0"]
