"""The listeners of gateways, and the addresses that are advertised for them.

``listeners``, ``advertised.listeners`` and ``listener.security.protocol.map`` are Kafka's, but one configuration serves
all gateways, where Kafka has one per broker. So what differs between gateways is counted up (ports), or a placeholder:

``{id}``
    the gateway's id, Kafka's ``node.id``
``{host}``
    the address that would be advertised otherwise: the listener's own, or else the node's
``{label:NAME}``
    a label of the node (``ray start --labels``)

A port may be ``9000+{id}``, as in Strimzi's ``advertisedPortTemplate``, or ``{label:NAME}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import combinations
from typing import Any

from muster.placement.host_port import host_port

DEFAULT_PORT = 9092
PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
DEFAULT_PROTOCOLS = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
"""Kafka's default of listener.security.protocol.map."""
RACK_LABEL = "ray.io/availability-zone"
"""The label that is a gateway's rack by default; Ray sets it from RAY_NODE_ZONE in its environment."""
ALL_INTERFACES = ("", "0.0.0.0", "::")  # noqa: S104 - compared

_MAX_PORT = 65535
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LABEL = re.compile(r"label:(.+)")
_NAME = r"[\w.-]+"
_LISTENER = re.compile(rf"(?:({_NAME})://)?(\[[0-9a-fA-F:]+\]|[^:/\[\]]*):(\d{{1,9}})")
_ADVERTISED = re.compile(
    rf"(?:({_NAME})://)?(\[[0-9a-fA-F:]+\]|(?:[\w.-]|\{{[^{{}}]*\}})+)"
    r"(?::(\d{1,9}|\d{1,5} ?\+ ?\{id\}|\{label:[^{}]+\}))?"
)


class BadPlaceholder(ValueError):
    """A placeholder has no value on a node, or one that does not fit. The message is for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A gateway's node: what placeholders may refer to."""

    gateway_id: int
    address: str
    labels: Mapping[str, str]
    """Ray's."""

    def label(self, name: str, needed_by: str) -> str:
        """Return the node's label of that name. Raises BadPlaceholder without one."""
        if not self.labels.get(name):
            raise BadPlaceholder(
                f"node {self.address} has no label {name}, which {needed_by} needs; "
                f"start Ray there with --labels {name}=VALUE"
            )
        return self.labels[name]

    def filled_in(self, template: str, needed_by: str) -> str:
        """Return the template with this node's values. Raises BadPlaceholder if it lacks a label."""

        def value(found: re.Match[str]) -> str:
            match found[1]:
                case "id":
                    return str(self.gateway_id)
                case "host":
                    return self.address
                case _:
                    return self.label(found[1].removeprefix("label:"), needed_by)

        return _PLACEHOLDER.sub(value, template)

    def rack(self, template: str | None) -> str | None:
        """Return the value of ``broker.rack`` on this node. Raises BadPlaceholder if it lacks a label that is named."""
        if template is None:
            return self.labels.get(RACK_LABEL) or None
        return self.filled_in(template, "broker.rack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """One entry of ``advertised.listeners``, with placeholders."""

    host: str
    port: str | None
    """None: the port that is listened on."""

    def address(self, node: Node, bound: int) -> tuple[str, int]:
        """Host and port for clients of that gateway, which listens at the port ``bound``. Raises BadPlaceholder."""
        host = node.filled_in(self.host, "advertised.listeners")
        if self.port is None:
            return host, bound
        first, _, counts = self.port.partition("+")
        text = node.filled_in(first.strip(), "advertised.listeners")
        if not re.fullmatch(r"\d{1,5}", text):
            raise BadPlaceholder(
                f"advertised.listeners has the port {self.port}, which is {text!r} on node {node.address}"
            )
        port = int(text)
        if counts:
            port += node.gateway_id
        elif "{" not in self.host and "{" not in first:
            port += node.gateway_id - 1
        if not 0 < port <= _MAX_PORT:
            raise BadPlaceholder(f"advertised.listeners gives gateway {node.gateway_id} the port {port}")
        return host, port


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One of a gateway's listeners."""

    name: str
    protocol: str
    """One of PROTOCOLS."""
    host: str
    """"" if none is named."""
    port: int
    """Port of the first gateway; 0: a free one."""
    advertised: Advertised | None = None
    """None: the address that it listens at."""
    proxy_protocol: bool = False
    """Whether connections begin with a header of the PROXY protocol."""
    balancers: tuple[IPv4Network | IPv6Network, ...] | None = None
    """Who may send such a header; None: anyone."""
    max_connections: int | None = None
    max_connection_creation_rate: int | None = None
    """None: no limit but the gateway's."""

    @property
    def needs_login(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    @property
    def uses_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    def trusts(self, host: str) -> bool:
        """Whether a header of the PROXY protocol is believed from that address, which is canonical text."""
        return self.balancers is None or any(ip_address(host) in network for network in self.balancers)

    def own_address(self, otherwise: str) -> str:
        """Return the host that it listens at; ``otherwise`` if it listens at all interfaces, or none is named."""
        return otherwise if self.host in ALL_INTERFACES else self.host

    def address(self, node: Node, bound: int) -> tuple[str, int]:
        """Host and port for clients of a gateway that listens at the port ``bound``. Raises BadPlaceholder."""
        return (node.address, bound) if self.advertised is None else self.advertised.address(node, bound)


def default_listeners(properties: Mapping[str, Any]) -> str:
    """Return the default of ``listeners``: with SASL mechanisms, clients have to log in."""
    name = SASL_PLAINTEXT if str(properties.get("sasl.enabled.mechanisms") or "").strip() else PLAINTEXT
    return f"{name}://:{DEFAULT_PORT}"


def read_listeners(
    listeners: str,
    protocols: str,
    advertised: str | None,
    *,
    proxy_protocol: bool,
    balancers: str | None,
    own: Mapping[str, Mapping[str, Any]],
) -> tuple[Listener, ...]:
    """Return the described listeners, in their order. Raises ValueError, which names the property.

    ``own``: properties of one listener, by its name; ``proxy_protocol`` and ``balancers`` hold for the others.
    """
    places = parse_listeners(listeners)
    protocol_of = parse_protocols(protocols)
    entries = _by_name(advertised, [name for name, _, _ in places])
    return tuple(
        Listener(
            name=name,
            protocol=_protocol(name, protocol_of, listeners),
            host=host,
            port=port,
            advertised=entries.get(name),
            proxy_protocol=own.get(name, {}).get("proxy.protocol.enable", proxy_protocol),
            balancers=_networks(own.get(name, {}).get("proxy.protocol.trusted.hosts", balancers)),
            max_connections=own.get(name, {}).get("max.connections"),
            max_connection_creation_rate=own.get(name, {}).get("max.connection.creation.rate"),
        )
        for name, host, port in places
    )


def _networks(text: str | None) -> tuple[IPv4Network | IPv6Network, ...] | None:
    if text is None:
        return None
    try:
        return tuple(ip_network(part, strict=False) for part in _parts(text))
    except ValueError as error:
        raise ValueError(f"proxy.protocol.trusted.hosts={text}: {error}") from None


def parse_listeners(text: str) -> list[tuple[str, str, int]]:
    """Name, host and port of each listener in ``listeners``. Raises ValueError; the message follows the text."""
    found = [_place(part) for part in _parts(text)]
    if not found:
        raise ValueError("names no listener")
    names = [name for name, _, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"has two listeners {name}; their names must differ")
    return found


def _place(text: str) -> tuple[str, str, int]:
    found = _LISTENER.fullmatch(text)
    if not found:
        raise ValueError(f"is not PLAINTEXT://[HOST]:PORT, or NAME://[HOST]:PORT with commas: {text}")
    _check_port(found[3], 0)
    return (found[1] or PLAINTEXT).upper(), found[2].strip("[]"), int(found[3])


def _check_port(port: str, least: int) -> None:
    if not least <= int(port) <= _MAX_PORT:
        raise ValueError(f"has port {port}, which is not between {least} and {_MAX_PORT}")


def parse_protocols(text: str) -> dict[str, str]:
    """Protocol by name of listener, of ``listener.security.protocol.map``.

    Raises ValueError; the message follows the text.
    """
    found: dict[str, str] = {}
    for part in _parts(text):
        name, colon, protocol = (each.strip().upper() for each in part.partition(":"))
        if not colon or not re.fullmatch(_NAME, name) or protocol not in PROTOCOLS:
            raise ValueError(f"is not NAME:PROTOCOL with commas, protocols are {', '.join(PROTOCOLS)}: {part}")
        if name in found:
            raise ValueError(f"has two protocols for {name}")
        found[name] = protocol
    return found


def _protocol(name: str, protocol_of: Mapping[str, str], listeners: str) -> str:
    protocol = protocol_of.get(name)
    if protocol is None:
        raise ValueError(
            f"listeners={listeners} {name} has no protocol; add {name}:PROTOCOL to listener.security.protocol.map, "
            f"with one of {', '.join(PROTOCOLS)}"
        )
    return protocol


def parse_advertised(text: str) -> list[tuple[str | None, Advertised]]:
    """Name, if any, and address of each entry of ``advertised.listeners``.

    Raises ValueError; the message follows the text.
    """
    return [_advertised(part) for part in _parts(text)]


def check_placeholders(text: str) -> None:
    """Raise ValueError if one is unknown; the message follows the text."""
    for placeholder in _PLACEHOLDER.findall(text):
        if placeholder not in ("id", "host") and not _LABEL.fullmatch(placeholder):
            raise ValueError(
                f"has the unknown placeholder {{{placeholder}}}; {{id}}, {{host}} and {{label:NAME}} exist"
            )


def _advertised(text: str) -> tuple[str | None, Advertised]:
    check_placeholders(text)
    found = _ADVERTISED.fullmatch(text)
    if not found:
        raise ValueError(f"is not [NAME://]HOST[:PORT] with commas: {text}")
    if found[3] and found[3].isdigit():
        _check_port(found[3], 1)
    host = found[2].strip("[]")
    if host in ALL_INTERFACES:
        raise ValueError(f"has {host}, to which no client can connect")
    return found[1].upper() if found[1] else None, Advertised(host=host, port=found[3])


def _by_name(advertised: str | None, names: Sequence[str]) -> dict[str, Advertised]:
    found: dict[str, Advertised] = {}
    for name, entry in parse_advertised(advertised) if advertised else ():
        if name is None and len(names) > 1:
            raise ValueError(f"advertised.listeners={advertised} needs the name of a listener: {', '.join(names)}")
        of = name or names[0]
        if of not in names:
            raise ValueError(f"advertised.listeners={advertised} names {of}, which is none of listeners={_list(names)}")
        if of in found:
            raise ValueError(f"advertised.listeners={advertised} has two addresses for {of}")
        found[of] = entry
    return found


def check_ports(listeners: Sequence[Listener], gateways: int) -> None:
    """Raise ValueError if two listeners need the same port for that many gateways on a host, whose ports count up."""
    for one, other in combinations(listeners, 2):
        hosts_meet = one.host == other.host or one.host in ALL_INTERFACES or other.host in ALL_INTERFACES
        if one.port and other.port and hosts_meet and abs(one.port - other.port) < gateways:
            count = "" if gateways == 1 else f" for {gateways} gateways, whose ports count up"
            raise ValueError(f"listeners {one.name} and {other.name} need the same port{count}; choose ports apart")


def check_distinct(addresses: Mapping[int, Sequence[tuple[str, int]]]) -> None:
    """Raise ValueError if two gateways advertise one address.

    ``addresses``: of the listeners of each gateway, by id.
    """
    owner: dict[tuple[str, int], int] = {}
    for gateway_id, own in addresses.items():
        for address in own:
            if owner.setdefault(address, gateway_id) != gateway_id:
                raise ValueError(same_address(gateway_id, owner[address], address))


def same_address(gateway_id: int, other_id: int, address: tuple[str, int]) -> str:
    """Return the message for two gateways that advertise one address."""
    return (
        f"gateways {other_id} and {gateway_id} both advertise {host_port(*address)}; "
        "put {id}, {host} or {label:NAME} into advertised.listeners"
    )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _list(names: Sequence[str]) -> str:
    return ",".join(names)
