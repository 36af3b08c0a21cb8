"""Finds a Muster that runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.actors.runtime.errors import last_line
from muster.actors.runtime.settings import NAMESPACE
from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import InvalidClientConfig, MusterError, NoResponse, NotRunning
from muster.gateway.client.http import GatewayUrl, bases, get
from muster.gateway.client.kafka.brokers import Brokers, addresses
from muster.gateway.client.kafka.requests import METADATA, of_topics
from muster.gateway.client.on_ray import connected_ray
from muster.gateway.client.run_state import RunState, holder, read_state

if TYPE_CHECKING:
    from muster.gateway.client.security import Security

_STORAGE = Path("muster-data")
_CLIENT_ID = "muster"
_STATUS_S = 15.0
_HTTP_S = 5.0
_REACH_S, _MIN_EACH_S = 8.0, 1.0
"""Time in which a broker must respond first, and what each address has of it at least. Each is tried once."""
_REMEDY = (
    "; it must be reachable from here, by the address that it advertises (listeners, advertised.listeners); where "
    "clients need a login or TLS, give security="
)


def connect(target: str | Path | None = None, *, security: Path | str | None = None) -> Cluster:
    """Return the Muster that runs: at ``HOST:PORT[,...]`` or in a storage directory, as ``target`` says.

    Without one: on the Ray that this process is connected to; else at MUSTER_BOOTSTRAP, with MUSTER_HTTP, both lists
    with commas; else in ./muster-data. ``security``: a property file as Kafka's tools take it. A real Kafka is found by
    its address as well. Raises NotRunning; NoResponse if no address responds from here; LoginFailed;
    InvalidClientConfig.
    """
    login = None
    if security is not None:
        from muster.gateway.client.security import read_security

        login = read_security(Path(security))
    if isinstance(target, str) and _is_bootstrap(target):
        return _reached(Cluster(target, security=login))
    if target is not None:
        return _reached(_in_storage(Path(target), login))
    found = _on_ray(login) or _in_environment(login)
    if found is None and read_state(_STORAGE) is None:
        where = "on this process's Ray" if connected_ray() else "on a Ray, since this process is connected to none"
        raise NotRunning(
            f"no Muster was found: not {where}, not by MUSTER_BOOTSTRAP, and not in ./{_STORAGE}; give HOST:PORT or a "
            "storage directory, or start one with muster.run or muster.start"
        )
    return _reached(found or _in_storage(_STORAGE, login))


def _is_bootstrap(target: str) -> bool:
    try:
        return bool([*addresses(target)])
    except InvalidClientConfig:
        return False


def _on_ray(security: Security | None) -> Cluster | None:
    """Return the Muster on this process's Ray; None if there is none, or this process is connected to none."""
    address = connected_ray()
    if address is None:
        return None
    ray: Any = sys.modules["ray"]
    try:
        controller = ray.get_actor("controller", NAMESPACE)
    except ValueError:
        return None
    try:
        status = ray.get(controller.status.remote(), timeout=_STATUS_S)
    except ray.exceptions.RayError as error:
        raise NoResponse("controller of the Muster on this Ray", last_line(error)) from error
    bootstrap, http = _gateways(status)
    if not bootstrap:
        raise NotRunning("the Muster on this Ray has no gateway that serves; try again, or see muster status")
    return Cluster(bootstrap, http, security, ray_address=address)


def _in_environment(security: Security | None) -> Cluster | None:
    bootstrap = os.environ.get("MUSTER_BOOTSTRAP")
    return Cluster(bootstrap, bases(os.environ.get("MUSTER_HTTP", "").split(",")), security) if bootstrap else None


def _in_storage(storage: Path, security: Security | None) -> Cluster:
    """Return the Muster that uses the directory. Raises NotRunning."""
    state = read_state(storage)
    if state is None or (state.is_own_ray and holder(storage) is None):
        raise NotRunning(
            f"no Muster runs on storage {storage}; start one with muster.run or muster up, or give HOST:PORT or "
            "another storage directory"
        )
    bootstrap, http = _now(state, security) or (",".join(state.bootstrap), bases(state.metrics))
    if not bootstrap:
        raise NotRunning(f"the Muster on storage {storage} does not serve yet; try again")
    return Cluster(bootstrap, http, security, ray_address="" if state.is_own_ray else state.ray_address)


def _now(state: RunState, security: Security | None) -> tuple[str, tuple[str, ...]] | None:
    """Return the gateways of now, by one of those at the start; None if none of them says it to this caller."""
    for url in state.metrics:
        try:
            return _gateways(get(GatewayUrl(url, state.cluster_id), "/v1/status", None, _HTTP_S, security))
        except MusterError:
            return None
        except (OSError, HTTPException, ValueError):
            continue
    return None


def _gateways(status: Any) -> tuple[str, tuple[str, ...]]:
    """Return addresses for ``bootstrap.servers`` and of HTTP, of the gateways in the controller's status."""
    serving = [actor for actor in status["actors"] if actor.get("address")]
    urls: Sequence[str] = [actor.get("metrics_url") or "" for actor in serving]
    return ",".join(actor["address"] for actor in serving), bases(urls)


def _reached(cluster: Cluster) -> Cluster:
    """Return the cluster, of which a broker responds. Raises NoResponse, LoginFailed."""
    with Brokers(cluster.bootstrap, _CLIENT_ID, cluster.security) as client:
        try:
            client.request(*METADATA, of_topics([]), timeout_s=0, each_s=max(_MIN_EACH_S, _REACH_S / client.count))
        except NoResponse as error:
            raise NoResponse(client.name, error.why, hint=_REMEDY) from error
    return cluster
