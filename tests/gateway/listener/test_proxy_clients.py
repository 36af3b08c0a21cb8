"""The address of a client behind a balancer, which sends it with the PROXY protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from muster.gateway.listener.proxy_protocol import SIGNATURE, Source, write_header
from muster.placement.view import Broker
from tests.gateway.balancer import balancer
from tests.gateway.listener.test_proxy_header import LOCAL, TCP4, TCP6, WITH_TLVS
from tests.gateway.serving import Serving

PROPERTIES = {"proxy.protocol.enable": "true", "group.initial.rebalance.delay.ms": "0"}
API_VERSIONS = 18
_ADMIT_S = 20.0
Fresh = Callable[[str], str]


@pytest.mark.parametrize(
    ("header", "host"),
    [
        (TCP4, "10.0.0.7"),
        (TCP6, "2001:db8::7"),
        (WITH_TLVS, "10.0.0.7"),
        (LOCAL, "127.0.0.1"),
        (write_header(Source("::ffff:10.0.0.9", 1), Source("::ffff:10.0.0.1", 2)), "10.0.0.9"),
    ],
)
def test_the_host_is_the_one_in_the_header(full: Serving, header: bytes, host: str) -> None:
    with full.connect() as client:
        client.send_raw(header)
        client.exchange(API_VERSIONS, 0, {})
        (connection,) = [one for one in full.gateway.connections.values() if one.port in (client.port, 54321, 1)]
        assert connection.host == host
        assert f'"{host}"'.encode() in connection.context


def test_a_header_in_pieces(full: Serving) -> None:
    with full.connect() as client:
        sent = bytearray(WITH_TLVS)
        client.send_raw, send = sent.extend, client.send_raw  # type: ignore[assignment]
        client.request(API_VERSIONS, 0, {})
        for byte in sent:
            send(bytes([byte]))
        assert client.response(API_VERSIONS, 0).api_keys


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", "no PROXY protocol header came first"),
        (b"PROXY TCP4 10.0.0.7 10.0.0.1 5 9092\r\n", "version 1 of the PROXY protocol"),
        (SIGNATURE + b"\x21\x11\xff\xff", "a PROXY header of 65551 bytes is announced"),
    ],
)
def test_a_connection_without_a_header_is_closed_and_its_fault_logged(
    full: Serving, caplog: pytest.LogCaptureFixture, data: bytes, why: str
) -> None:
    full.flush_complaints()
    with full.connect() as client:
        client.send_raw(data)
        assert client.is_closed()
    assert why in caplog.text


def test_a_health_check_is_not_worth_a_line(full: Serving, caplog: pytest.LogCaptureFixture) -> None:
    with full.connect() as client:
        client.send_raw(LOCAL)
        client.finish()
        assert client.is_closed()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_header_where_none_is_expected_is_hinted_at(served: Serving, caplog: pytest.LogCaptureFixture) -> None:
    for data in (TCP4, b"PROXY TCP4 10.0.0.7 10.0.0.1 5 9092\r\n"):
        served.flush_complaints()
        caplog.clear()
        with served.connect() as client:
            with suppress(ConnectionError):
                client.send_raw(data)
            assert client.is_closed()
        assert "this looks like the PROXY protocol: set proxy.protocol.enable=true" in caplog.text


def test_consumers_behind_a_balancer_are_registered_where_they_are(full: Serving, fresh: Fresh) -> None:
    topic, group = fresh("t"), fresh("g")
    full.create(topic)
    balancing = balancer(full.port, Source("203.0.113.9", 40_000))
    port = full.run(balancing.__aenter__())
    try:
        full.controller.brokers = (Broker(id=1, host="127.0.0.1", port=port, node_id="n1"),)
        full.follow(full.controller.view())
        server: dict[str, str | int | float | bool] = {"bootstrap.servers": f"127.0.0.1:{port}"}
        producer = Producer(server)
        producer.produce(topic, b"hello")
        assert producer.flush(_ADMIT_S) == 0
        consumer = Consumer({**server, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        message = consumer.poll(_ADMIT_S)
        assert message is not None
        assert message.value() == b"hello"
        admin = AdminClient(server)
        described = admin.describe_consumer_groups([group])[group].result(_ADMIT_S)
        assert [member.host for member in described.members] == ["/203.0.113.9"]
        consumer.close()
    finally:
        full.run(balancing.__aexit__(None, None, None))
    assert full.actors is not None
    assert {one.host for one in full.actors.changes.of_group(group)} == {"203.0.113.9"}
