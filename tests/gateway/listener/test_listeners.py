"""Several listeners of one gateway: clients get the addresses of the one that they came in on."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.proxy_protocol import Source, write_header
from muster.gateway.security.credentials import write
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from muster.placement.view import Broker, BrokerAddress
from tests.gateway.serving import Client, Serving

INNER, OUTER = "127.0.0.1", "127.0.0.2"
API_VERSIONS, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 18, 3, 10, 60
PASSWORD, WAIT_S = "of ann", 30.0
Fresh = Callable[[str], str]


def PROPERTIES(storage: Path) -> dict[str, str]:
    users = storage / "users.properties"
    write(users, {"ann": {each: ScramCredential.of_password(each, PASSWORD) for each in SCRAM_MECHANISMS}})
    return {
        "listeners": f"INTERNAL://{INNER}:0,EXTERNAL://{OUTER}:0,BALANCED://{INNER}:0,FEW://{INNER}:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT,BALANCED:PLAINTEXT,FEW:PLAINTEXT",
        "listener.name.balanced.proxy.protocol.enable": "true",
        "listener.name.balanced.proxy.protocol.trusted.hosts": f"10.0.0.0/8, {INNER}",
        "listener.name.few.max.connections": "2",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.credentials.file": str(users),
        "group.initial.rebalance.delay.ms": "0",
    }


@pytest.fixture(scope="module")
def ports(full: Serving) -> dict[str, int]:
    """Return the port of each listener; views have its address."""
    found = {"INTERNAL": full.port, "EXTERNAL": full.listen("EXTERNAL", OUTER)}
    found |= {name: full.listen(name) for name in ("BALANCED", "FEW")}
    full.controller.brokers = (
        Broker(
            id=1,
            host=INNER,
            port=full.port,
            node_id="n1",
            further=(
                BrokerAddress("EXTERNAL", OUTER, found["EXTERNAL"]),
                BrokerAddress("BALANCED", "balanced.test", 443),
                BrokerAddress("FEW", INNER, found["FEW"]),
            ),
        ),
        Broker(
            id=2, host="two.test", port=1, node_id="n2", further=(BrokerAddress("BALANCED", "two.balanced.test", 444),)
        ),
    )
    full.follow(full.controller.view())
    return found


def balanced(ports: dict[str, int]) -> Client:
    client = Client(ports["BALANCED"])
    client.send_raw(write_header(Source("10.0.0.7", 5), Source("10.0.0.1", 443)))
    return client


def test_addresses_are_those_of_the_clients_listener(full: Serving, ports: dict[str, int], fresh: Fresh) -> None:
    with full.connect() as inner, balanced(ports) as behind:
        for client, expected in (
            (inner, {1: (INNER, full.port), 2: ("two.test", 1)}),
            (behind, {1: ("balanced.test", 443), 2: ("two.balanced.test", 444)}),
        ):
            metadata = client.exchange(METADATA, 12, {"topics": []} | _METADATA)
            assert {each.node_id: (each.host, each.port) for each in metadata.brokers} == expected
            described = client.exchange(DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False})
            assert {each.broker_id: (each.host, each.port) for each in described.brokers} == expected
            found = client.exchange(FIND_COORDINATOR, 1, {"key": fresh("g"), "key_type": 0})
            assert found.error_code is ErrorCode.none
            assert (found.host, found.port) == expected[int(found.node_id)]


_METADATA: dict[str, Any] = {
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


def test_real_clients_stay_on_their_listener(full: Serving, ports: dict[str, int], fresh: Fresh) -> None:
    """Both at once; the one at EXTERNAL has to log in, the other has not."""
    full.controller.brokers = full.controller.brokers[:1]
    topic = full.create(fresh("t")).name
    inner: dict[str, Any] = {"bootstrap.servers": f"{INNER}:{ports['INTERNAL']}"}
    outer: dict[str, Any] = {
        "bootstrap_servers": f"{OUTER}:{ports['EXTERNAL']}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ann",
        "sasl_plain_password": PASSWORD,
    }
    producer, other = Producer(inner), KafkaProducer(**outer)
    producer.produce(topic, b"from inside")
    other.send(topic, b"from outside")
    assert producer.flush(WAIT_S) == 0
    other.flush(WAIT_S)
    consumer = Consumer({**inner, "group.id": fresh("g"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    another = KafkaConsumer(
        topic, group_id=fresh("g"), auto_offset_reset="earliest", consumer_timeout_ms=WAIT_S * 1000, **outer
    )
    assert {message.value() for message in consumer.consume(2, WAIT_S)} == {b"from inside", b"from outside"}
    assert {next(another).value, next(another).value} == {b"from inside", b"from outside"}
    used = {(each.listener.name, each.principal) for each in full.gateway.connections.values()}
    assert {("INTERNAL", "User:ANONYMOUS"), ("EXTERNAL", "User:ann")} <= used
    assert ("EXTERNAL", "User:ANONYMOUS") not in used
    brokers = AdminClient(inner).list_topics(timeout=WAIT_S).brokers
    assert {(each.host, each.port) for each in brokers.values()} == {(INNER, ports["INTERNAL"])}
    consumer.close()
    another.close()
    other.close()


def test_a_header_is_expected_at_one_listener_only(
    full: Serving, ports: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    full.flush_complaints()
    with Client(ports["BALANCED"]) as without:
        without.request(API_VERSIONS, 0, {})
        assert without.is_closed()
    assert "closed: listener BALANCED: no PROXY protocol header came first" in caplog.text
    with balanced(ports) as behind, full.connect() as direct:
        assert behind.exchange(API_VERSIONS, 0, {}).api_keys
        assert direct.exchange(API_VERSIONS, 0, {}).api_keys


def test_connections_are_limited_at_one_listener(full: Serving, ports: dict[str, int]) -> None:
    with Client(ports["FEW"]) as first, Client(ports["FEW"]) as second, Client(ports["FEW"]) as third:
        third.request(API_VERSIONS, 0, {})
        assert first.exchange(API_VERSIONS, 0, {}).api_keys
        assert second.exchange(API_VERSIONS, 0, {}).api_keys
        with full.connect() as elsewhere:
            assert elsewhere.exchange(API_VERSIONS, 0, {}).api_keys
        assert third.has_nothing_for(0)
        second.close()
        assert third.response(API_VERSIONS, 0).api_keys


def test_an_address_is_believed_from_balancers_only(
    full: Serving, ports: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    """Not even that of a balancer, which another host claims."""
    full.flush_complaints()
    stranger = "127.0.0.3"
    with socket.create_connection((INNER, ports["BALANCED"]), WAIT_S, source_address=(stranger, 0)) as connection:
        connection.sendall(write_header(Source("10.0.0.7", 1), Source("10.0.0.1", 2)))
        assert connection.recv(1) == b""
    assert f"{stranger} is none of proxy.protocol.trusted.hosts" in caplog.text
    assert "10.0.0.7" not in {each.host for each in full.gateway.connections.values()}
