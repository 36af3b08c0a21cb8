"""A whole Muster with two listeners: what it advertises, and a gateway that is killed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from muster.placement.zookeeper.client import connect
from tests.muster_process import Muster

TOPIC, WAIT_S = "orders", 60.0


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    properties = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.2:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
    }
    with Muster(tmp_path_factory.mktemp("listeners") / "storage", properties=properties) as running:
        yield running


def brokers_at(bootstrap: str) -> set[str]:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=WAIT_S).brokers
    return {f"{broker.host}:{broker.port}" for broker in found.values()}


def test_each_listener_is_advertised(muster: Muster) -> None:
    listeners = muster.ready["listeners"]
    assert muster.ready["bootstrap"] == listeners["INTERNAL"]
    assert [address.rpartition(":")[0] for address in listeners["EXTERNAL"]] == ["127.0.0.2"] * 2
    for addresses in listeners.values():
        assert brokers_at(addresses[0]) == set(addresses)
    actor = muster.actors()["gateway-1"]
    assert actor["address"] == listeners["INTERNAL"][0]
    assert actor["further_addresses"] == {"EXTERNAL": listeners["EXTERNAL"][0]}
    assert f"{listeners['INTERNAL'][0]},EXTERNAL://{listeners['EXTERNAL'][0]}" in muster.cli("status")


def test_zookeeper_has_them_as_kafka_writes_them(muster: Muster) -> None:
    client = connect(muster.ready["zookeeper"], timeout_s=WAIT_S)
    fields = json.loads(client.get("/brokers/ids/1")[0])
    client.shut()
    inner, outer = (muster.ready["listeners"][name][0] for name in ("INTERNAL", "EXTERNAL"))
    assert fields["endpoints"] == [f"INTERNAL://{inner}", f"EXTERNAL://{outer}"]
    assert fields["listener_security_protocol_map"] == {"INTERNAL": "PLAINTEXT", "EXTERNAL": "PLAINTEXT"}
    assert f"{fields['host']}:{fields['port']}" == inner


def test_no_listener_of_a_killed_gateway_refuses_clients(muster: Muster) -> None:
    """Both sockets are held while it is dead, and both are its own again."""
    addresses = [muster.ready["listeners"][name][0] for name in ("INTERNAL", "EXTERNAL")]
    pid = muster.kill_actor("gateway-1")
    for address in addresses:
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=WAIT_S).close()
    again = muster.until_back("gateway-1", pid)
    assert [again["address"], again["further_addresses"]["EXTERNAL"]] == addresses


def test_clients_of_both_listeners_share_topics_and_groups(muster: Muster) -> None:
    muster.cli("topics", "create", TOPIC, "--partitions", "4")
    for name, addresses in muster.ready["listeners"].items():
        producer = Producer({"bootstrap.servers": addresses[0]})
        for number in range(20):
            producer.produce(TOPIC, f"{name} {number}")
        assert producer.flush(WAIT_S) == 0
    sent = {f"{name} {number}".encode() for name in muster.ready["listeners"] for number in range(20)}
    for addresses in muster.ready["listeners"].values():
        consumer = Consumer({"bootstrap.servers": addresses[1], "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        got = {message.value() for message in consumer.consume(20, WAIT_S)}
        assert len(got) == 20
        assert got <= sent
        sent -= got
        consumer.commit(asynchronous=False)
        consumer.close()
    assert not sent
