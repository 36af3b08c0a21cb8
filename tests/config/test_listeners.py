"""Listeners and what is advertised for them, of one configuration for all gateways."""

from __future__ import annotations

import pickle

import pytest

from muster.actors.config import BadPlaceholder, ConfigError, MusterConfig, Node
from muster.actors.config.dynamic import altered
from muster.actors.config.listeners import check_distinct

TWO = {"listeners": "INTERNAL://:9092,EXTERNAL://:9094", "listener.security.protocol.map": "INTERNAL:PLAINTEXT"}
MAPPED = {**TWO, "listener.security.protocol.map": "INTERNAL:PLAINTEXT,external:plaintext"}
LABELS = {"pod": "muster-b", "port": "31000", "topology.kubernetes.io/zone": "z1"}


def node(gateway: int, address: str = "10.0.0.7") -> Node:
    return Node(gateway_id=gateway, address=address, labels=LABELS)


def test_listeners_by_name() -> None:
    inner, outer = MusterConfig.from_properties(
        {
            **MAPPED,
            "listeners": "INTERNAL://10.0.0.1:9092, external://[::1]:9094",
            "advertised.listeners": "EXTERNAL://kafka-{id}.example.com:443",
            "listener.name.external.max.connections": "100",
            "listener.name.external.proxy.protocol.enable": "TRUE",
        }
    ).all_listeners
    assert (inner.name, inner.protocol, inner.host, inner.port) == ("INTERNAL", "PLAINTEXT", "10.0.0.1", 9092)
    assert (outer.name, outer.protocol, outer.host, outer.port) == ("EXTERNAL", "PLAINTEXT", "::1", 9094)
    assert (inner.proxy_protocol, inner.max_connections) == (False, None)
    assert (outer.proxy_protocol, outer.max_connections) == (True, 100)
    assert inner.address(node(3), 9092) == ("10.0.0.7", 9092)
    assert outer.address(node(3), 9096) == ("kafka-3.example.com", 443)


def test_what_one_listener_has_stays_when_a_config_is_altered_and_sent() -> None:
    config = MusterConfig.from_properties({**MAPPED, "listener.name.internal.max.connections": "7"})
    for copy in (altered(config, {"max.connections": "9"}), pickle.loads(pickle.dumps(config))):
        assert [listener.max_connections for listener in copy.all_listeners] == [7, None]


@pytest.mark.parametrize(
    ("template", "address"),
    [
        (None, ("10.0.0.7", 9094)),
        ("kafka.example", ("kafka.example", 9094)),
        ("kafka.example:1000", ("kafka.example", 1002)),
        ("PLAINTEXT://gw-{id}.example:1000", ("gw-3.example", 1000)),
        ("{host}:1000", ("10.0.0.7", 1000)),
        ("[::1]:1000", ("::1", 1002)),
        ("kafka.example:9000+{id}", ("kafka.example", 9003)),
        ("kafka.example:9000 + {id}", ("kafka.example", 9003)),
        ("{label:pod}.example", ("muster-b.example", 9094)),
        ("{label:topology.kubernetes.io/zone}-{id}.example:{label:port}", ("z1-3.example", 31000)),
    ],
)
def test_clients_get_the_advertised_address(template: str | None, address: tuple[str, int]) -> None:
    config = MusterConfig.from_properties({"advertised.listeners": template} if template else {})
    (listener,) = config.all_listeners
    assert listener.address(node(3), 9094) == address


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (TWO, "EXTERNAL has no protocol; add EXTERNAL:PROTOCOL to listener.security.protocol.map, with one of PLAIN"),
        ({"listeners": "A://:1,a://:2"}, "listeners=A://:1,a://:2 has two listeners A; their names must differ"),
        (
            {"listeners": "PLAINTEXT://:1,SSL://:2"},
            "listener SSL: TLS needs a key: set ssl.keystore.location, or ssl.k",
        ),
        ({"listeners": " , "}, "listeners= ,  names no listener"),
        ({"listeners": "PLAINTEXT://9092"}, "is not PLAINTEXT://[HOST]:PORT, or NAME://"),
        ({"listeners": "PLAINTEXT://:65536"}, "PLAINTEXT://:65536 has port 65536, which is not between 0 and 65535"),
        (
            {**MAPPED, "listeners": "INTERNAL://:9092,EXTERNAL://10.0.0.1:9092"},
            "listeners INTERNAL and EXTERNAL need the same port; choose ports apart",
        ),
        (
            {**MAPPED, "gateway.count": "3"},
            "listeners INTERNAL and EXTERNAL need the same port for 3 gateways, whose ports count up; choose ports",
        ),
        ({"listener.security.protocol.map": "A"}, "listener.security.protocol.map=A is not NAME:PROTOCOL with commas"),
        ({"listener.security.protocol.map": "A:TLS"}, "listener.security.protocol.map=A:TLS is not NAME:PROTOCOL"),
        (
            {"listener.security.protocol.map": "A:PLAINTEXT,a:PLAINTEXT"},
            "listener.security.protocol.map=A:PLAINTEXT,a:PLAINTEXT has two protocols for A",
        ),
        (
            {"advertised.listeners": "kafka-{pod}:1"},
            "advertised.listeners=kafka-{pod}:1 has the unknown placeholder {pod}; {id}, {host} and {label:NAME} exist",
        ),
        ({"advertised.listeners": "{label:}"}, "has the unknown placeholder {label:}"),
        ({"advertised.listeners": "kafka:{id}"}, "advertised.listeners=kafka:{id} is not [NAME://]HOST[:PORT]"),
        (
            {"advertised.listeners": "kafka:0"},
            "advertised.listeners=kafka:0 has port 0, which is not between 1 and 65535",
        ),
        ({"advertised.listeners": "0.0.0.0:1"}, "advertised.listeners=0.0.0.0:1 has 0.0.0.0, to which no client can"),
        (
            {**MAPPED, "advertised.listeners": "kafka:1"},
            "advertised.listeners=kafka:1 needs the name of a listener: INTERNAL, EXTERNAL",
        ),
        (
            {**MAPPED, "advertised.listeners": "OUTER://kafka:1"},
            "advertised.listeners=OUTER://kafka:1 names OUTER, which is none of listeners=INTERNAL,EXTERNAL",
        ),
        (
            {**MAPPED, "advertised.listeners": "EXTERNAL://a:1,EXTERNAL://b:1"},
            "advertised.listeners=EXTERNAL://a:1,EXTERNAL://b:1 has two addresses for EXTERNAL",
        ),
        (
            {"listener.name.external.max.connections": "1"},
            "listener.name.external.max.connections is for none of the listeners; their names in it are plaintext",
        ),
        (
            {"listener.name.PLAINTEXT.max.connections": "1"},
            "listener.name.PLAINTEXT.max.connections is for none of the listeners; their names in it are plaintext",
        ),
        (
            {"listener.name.plaintext.max.connections": "0"},
            "listener.name.plaintext.max.connections=0 must be at least 1",
        ),
        (
            {"proxy.protocol.trusted.hosts": "10.0.0.1, balancer"},
            "proxy.protocol.trusted.hosts=10.0.0.1, balancer: 'balancer' does not appear to be an IPv4 or IPv6 network",
        ),
        (
            {"listener.name.plaintext.proxy.protocol.enable": "on"},
            "listener.name.plaintext.proxy.protocol.enable=on is neither true nor false",
        ),
        (
            {"listener.name.plaintext.fetch.max.bytes": "2048"},
            "listener.name.plaintext.fetch.max.bytes cannot be set for one listener; ssl...., connection",
        ),
        ({"broker.rack": "{zone}"}, "broker.rack={zone} has the unknown placeholder {zone}"),
        ({"replica.selector.class": "x"}, "replica.selector.class has no effect in Muster (client.rack"),
        (
            {"listener.name.plaintext.gssapi.sasl.kerberos.service.name": "x"},
            "listener.name.plaintext.gssapi.sasl.kerberos.service.name has no effect in Muster (Kerberos (GSSAPI)",
        ),
        ({"inter.broker.listener.name": "A"}, "inter.broker.listener.name has no effect in Muster (gateways do not"),
        (
            {"listeners": "PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN", "sasl.credentials.file": "x"},
            "sasl.enabled.mechanisms needs a listener with the protocol SASL_PLAINTEXT or SASL_SSL, for example ",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_name(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MusterConfig.from_properties(properties)
    assert message in str(refused.value)


def test_with_sasl_the_default_listener_requires_a_login() -> None:
    (listener,) = MusterConfig.from_properties(
        {"sasl.enabled.mechanisms": "PLAIN", "sasl.credentials.file": "users"}
    ).all_listeners
    assert (listener.name, listener.needs_login, listener.port) == ("SASL_PLAINTEXT", True, 9092)


def test_kafkas_own_map_of_protocols_may_be_given() -> None:
    kafkas = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    (listener,) = MusterConfig.from_properties({"listener.security.protocol.map": kafkas}).all_listeners
    assert listener.protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("advertised", "message"),
    [
        ("{label:zone}:1", "node 10.0.0.7 has no label zone, which advertised.listeners needs; start Ray there with"),
        ("kafka:{label:pod}", "advertised.listeners has the port {label:pod}, which is 'muster-b' on node 10.0.0.7"),
        ("kafka:65535", "advertised.listeners gives gateway 3 the port 65537"),
    ],
)
def test_a_gateway_without_an_address(advertised: str, message: str) -> None:
    (listener,) = MusterConfig.from_properties({"advertised.listeners": advertised}).all_listeners
    with pytest.raises(BadPlaceholder) as refused:
        listener.address(node(3), 9092)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("template", "labels", "rack"),
    [
        (None, {}, None),
        (None, {"ray.io/availability-zone": "eu-1a"}, "eu-1a"),
        ("here", {"ray.io/availability-zone": "eu-1a"}, "here"),
        ("{label:site}/{label:rack}", {"site": "s", "rack": "r"}, "s/r"),
    ],
)
def test_racks(template: str | None, labels: dict[str, str], rack: str | None) -> None:
    config = MusterConfig.from_properties({"broker.rack": template} if template else {})
    assert Node(gateway_id=1, address="10.0.0.7", labels=labels).rack(config.broker_rack) == rack


def test_a_node_without_the_label_of_racks() -> None:
    with pytest.raises(BadPlaceholder, match=r"node 10\.0\.0\.7 has no label zone, which broker\.rack needs"):
        node(1).rack("{label:zone}")


def test_two_gateways_with_one_address() -> None:
    check_distinct({1: [("a", 1), ("b", 1)], 2: [("a", 2), ("b", 2)]})
    with pytest.raises(ValueError, match=r"gateways 1 and 2 both advertise b:1; put \{id\}, \{host\} or \{label:NAME"):
        check_distinct({1: [("a", 1), ("b", 1)], 2: [("a", 2), ("b", 1)]})
