"""Checks that clients can connect to the advertised addresses, as far as possible before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.actors.config import Listener, MusterConfig, Node
from muster.actors.config.listeners import check_distinct

_LOOPBACK = "127.0.0.1"


def check_addresses(config: MusterConfig, *, on_cluster: bool) -> None:
    """Raise ValueError if two gateways would advertise the same address, or one an address that is none."""
    listeners = config.all_listeners
    for listener in listeners:
        if listener.host in ("0.0.0.0", "::") and listener.advertised is None and not on_cluster:  # noqa: S104
            raise ValueError(
                f"listeners={config.listeners} {listener.name} is open on all interfaces; set the "
                "address for clients in advertised.listeners"
            )
    known = [listener for listener in listeners if not _depends_on_node(listener, on_cluster)]
    gateways = range(1, (config.gateway_count or 1) + 1)
    check_distinct({gateway: [_address(listener, gateway) for listener in known] for gateway in gateways})


def _depends_on_node(listener: Listener, on_cluster: bool) -> bool:
    templates = _templates(listener)
    return any("{label:" in template or ("{host}" in template and on_cluster) for template in templates)


def _address(listener: Listener, gateway: int) -> tuple[str, int]:
    """Return the address, with a port of its own if that is not chosen yet."""
    bound = listener.port + gateway - 1 if listener.port else -gateway
    node = Node(gateway_id=gateway, address=listener.own_address(_LOOPBACK), labels={})
    return listener.address(node, bound)


def check_labels(config: MusterConfig, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Raise BadPlaceholder if one of Ray's live ``nodes``, as ``ray.nodes()`` has them, lacks a label that is
    needed."""
    templates = [("advertised.listeners", text) for each in config.all_listeners for text in _templates(each)]
    templates.append(("broker.rack", config.broker_rack or ""))
    for node in nodes:
        here = Node(gateway_id=0, address=node["NodeManagerAddress"], labels=node.get("Labels") or {})
        for needed_by, template in templates:
            here.filled_in(template, needed_by)


def _templates(listener: Listener) -> Iterator[str]:
    if listener.advertised is not None:
        yield listener.advertised.host
        yield listener.advertised.port or ""
