"""Starts, queries and stops the actors of a cluster, once connected to Ray; for ``muster up`` and others."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from muster.actors.controller.actor import Controller
from muster.actors.controller.nodes import NodeError
from muster.actors.controller.supervisor import detached
from muster.actors.reconciler.reconciler import MappingUnknown
from muster.actors.runtime.errors import last_line
from muster.actors.runtime.head import head_node_id
from muster.actors.runtime.process import log_folder
from muster.actors.runtime.ray import store
from muster.actors.runtime.settings import CONSOLE_PORT, HTTP_ADDRESSES, NAMESPACE, ClusterReady, ClusterSettings
from muster.actors.zookeeper.actor import KIND as ZOOKEEPER
from muster.actors.zookeeper.actor import ZooKeeperActor, name_of
from muster.gateway.actor import GatewayActor
from muster.gateway.console.actor import ConsoleActor
from muster.gateway.http.console import console_refusal
from muster.gateway.standby import GatewayStandby
from muster.placement.host_port import host_port
from muster.placement.view import Broker
from muster.placement.zookeeper.client import ZooKeeperUnreachable
from muster.placement.zookeeper.ensemble import Ensemble

_STOP_S = 40.0
_STATUS_S = 15.0
_IDENTITY_S = 10.0
_SERVER_S = 60.0
_SERVER_STOP_S = 15.0
_POLL_S = 0.2


class ClusterError(RuntimeError):
    """The cluster did not start, or does not respond; the message names the part and the reason."""


def start_cluster(settings: ClusterSettings, progress: Callable[[str], None]) -> ClusterReady:
    """Start every actor and wait until all serve. Call :func:`take_over` before.

    Raises ClusterError if one cannot start.
    """
    console_class = ConsoleActor if console_refusal(settings.config) is None else None
    arguments = (settings, secrets.token_bytes(32), GatewayActor, GatewayStandby, console_class)
    # If any other node is lost, the controller is not.
    controller = detached(Controller, "controller", settings.namespace, *arguments, node_id=head_node_id())
    try:
        ray.get(controller.start.remote())
        progress("waiting for the log actors and the gateways")
        gateways = ray.get(controller.ready.remote())
    except RayError as error:
        raise ClusterError(last_line(error)) from error
    ready = ClusterReady(
        bootstrap=tuple(host_port(gateway["broker"].host, gateway["broker"].port) for gateway in gateways),
        listeners=_by_listener(settings, [gateway["broker"] for gateway in gateways]),
        metrics=tuple(gateway["metrics_url"] for gateway in gateways),
        zookeeper=settings.zookeeper,
        logs=str(log_folder(Path(settings.storage))),
        console=f"{gateways[0]['metrics_url'].removesuffix('metrics')}" if console_class is not None else None,
    )
    found = json.dumps({"cluster_id": settings.cluster_id, "metrics": ready.metrics})
    store.put(HTTP_ADDRESSES, found, settings.namespace)
    return ready


def _by_listener(settings: ClusterSettings, brokers: list[Broker]) -> dict[str, tuple[str, ...]]:
    found = {}
    for listener in settings.config.all_listeners:
        addresses = [broker.at(listener.name) for broker in brokers]
        found[listener.name] = tuple(host_port(each.host, each.port) for each in addresses)
    return found


def refuse_other(cluster_id: str, namespace: str) -> None:
    """Raise ClusterError if another Muster runs on this Ray."""
    if _actors(namespace) and (other := _other(cluster_id, namespace)) is not None:
        raise ClusterError(
            f"another Muster runs on this Ray, on storage {other}; stop it with muster down --storage {other}"
        )


def start_servers(settings: ClusterSettings, ensemble: Ensemble) -> None:
    """Start the ZooKeeper servers of Muster's own ensemble that do not run, as far as their nodes are alive.

    Raises ClusterError if not even a majority can be started.
    """
    nodes = {node["NodeManagerAddress"]: node["NodeID"] for node in _live_nodes()}
    wanted = [server for server in ensemble.servers if server.address in nodes]

    def begin(number: int) -> Any:
        node_id = nodes[ensemble.server(number).address]
        name, namespace = name_of(number), settings.namespace
        return detached(ZooKeeperActor, name, namespace, settings, number, node_id=node_id, pinned=True).start.remote()

    started = {server.id: begin(server.id) for server in wanted}
    bad = [f"no node with address {each.address} is alive" for each in ensemble.servers if each not in wanted]
    deadline_s = time.monotonic() + _SERVER_S
    for number, response in started.items():
        if (reason := _reason(response, partial(begin, number), deadline_s)) is not None:
            bad.append(f"{name_of(number)} at {ensemble.server(number).address}: {reason}")
    if len(ensemble.servers) - len(bad) < (len(ensemble.servers) if ensemble.is_new else ensemble.majority):
        raise ClusterError(f"ZooKeeper's servers do not start: {'; '.join(bad)}")


def _reason(response: Any, again: Callable[[], Any], deadline_s: float) -> str | None:
    """Wait for the start of a server, also of another actor if its name was still that of one that ended."""
    while True:
        try:
            ray.get(response, timeout=max(0.0, deadline_s - time.monotonic()))
        except RayActorError as error:
            if time.monotonic() > deadline_s:
                return last_line(error)
            time.sleep(_POLL_S)
            response = again()
        except (RayError, TimeoutError) as error:
            return last_line(error)
        else:
            return None


def stop_servers(namespace: str = NAMESPACE) -> None:
    """Stop the ZooKeeper servers, unless other actors, which need them, are left. No effect if none runs."""
    names = _actors(namespace)
    if not all(_is_server(name) for name in names):
        return
    stopping: list[Any] = []
    for name in names:
        with contextlib.suppress(ValueError):
            stopping.append(ray.get_actor(name, namespace).stop.remote())
    if stopping:
        ray.wait(stopping, num_returns=len(stopping), timeout=_SERVER_STOP_S)
    for name in names:
        _kill(name, namespace)


def _live_nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _is_server(name: str) -> bool:
    return name.startswith(f"{ZOOKEEPER}-")


def take_over(settings: ClusterSettings, progress: Callable[[str], None]) -> None:
    """Stop what a killed ``muster up`` on this storage left on this Ray, but for ZooKeeper.

    Raises ClusterError if another Muster runs here.
    """
    refuse_other(settings.cluster_id, settings.namespace)
    if all(_is_server(name) for name in _actors(settings.namespace)):
        return
    progress("taking over from a muster up that was killed: stopping its actors")
    stop_actors(settings.namespace)


def is_left_of(cluster_id: str, namespace: str = NAMESPACE) -> bool:
    """Whether actors of that cluster are on this Ray; if their cluster cannot be determined, they count as its own."""
    return bool(_actors(namespace)) and _other(cluster_id, namespace) is None


def _other(cluster_id: str, namespace: str) -> str | None:
    """Return the storage of the Muster in the namespace if it is not that cluster; None if no actor reports it.

    The controller reports it or, while it is unavailable or paused, a gateway.
    """
    gateways = sorted(name for name in _actors(namespace) if name.startswith("gateway-"))
    for name in ("controller", *gateways):
        with contextlib.suppress(ValueError, RayError, TimeoutError):
            identity: Any = ray.get(ray.get_actor(name, namespace).identity.remote(), timeout=_IDENTITY_S)
            return str(identity[1]) if identity[0] != cluster_id else None
    return None


def _actors(namespace: str) -> list[str]:
    found = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in found if actor["namespace"] == namespace]


def stop_cluster(namespace: str = NAMESPACE) -> None:
    """Stop in order, ZooKeeper last; what does not stop in time is killed. No effect if nothing runs."""
    stop_actors(namespace)
    stop_servers(namespace)


def stop_actors(namespace: str) -> None:
    """Stop everything but the ZooKeeper servers."""
    with contextlib.suppress(ValueError, RayError, TimeoutError):
        ray.get(ray.get_actor("controller", namespace).stop.remote(), timeout=_STOP_S)
    names = [name for name in _actors(namespace) if not _is_server(name)]
    for name in sorted(names, key=lambda name: name != "controller"):  # the controller first: it would restart others
        _kill(name, namespace)
    for key in (HTTP_ADDRESSES, CONSOLE_PORT):
        store.delete(key, namespace)


def _kill(name: str, namespace: str) -> None:
    try:
        ray.kill(ray.get_actor(name, namespace), no_restart=True)
    except ValueError:
        return


def cluster_status(namespace: str = NAMESPACE) -> dict[str, Any]:
    """Nodes and actors as the controller sees them. Raises ClusterError if it does not respond."""
    return dict(call_controller("status", namespace=namespace))


def call_controller(method: str, *arguments: Any, namespace: str = NAMESPACE) -> Any:
    """Call a method of the controller. Raises ClusterError if it does not respond, or with its reason if it refuses."""
    try:
        controller = ray.get_actor("controller", namespace)
        return ray.get(getattr(controller, method).remote(*arguments), timeout=_STATUS_S)
    except RayTaskError as error:
        if isinstance(error.cause, NodeError):
            raise ClusterError(str(error.cause)) from error
        raise ClusterError(f"the controller failed: {last_line(error)}") from error
    except (ValueError, RayError, TimeoutError) as error:
        raise ClusterError(f"the controller does not respond: {last_line(error)}") from error


def call_reconciler(method: str, *, timeout_s: float, namespace: str = NAMESPACE) -> Any:
    """Call a method of the reconciler. Raises ClusterError if it does not respond, or with its reason if it cannot."""
    try:
        reconciler = ray.get_actor("reconciler", namespace)
        return ray.get(getattr(reconciler, method).remote(), timeout=timeout_s)
    except RayTaskError as error:
        if isinstance(error.cause, MappingUnknown | ZooKeeperUnreachable):
            raise ClusterError(str(error.cause)) from error
        raise ClusterError(f"the reconciler failed: {last_line(error)}") from error
    except (ValueError, RayError, TimeoutError) as error:
        raise ClusterError(f"the reconciler does not respond: {last_line(error)}") from error
