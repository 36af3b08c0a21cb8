"""Bad input against a whole running Muster: real clients do not notice, and the log says which client sent what."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Callable

import kafka
import pytest
from kafka import TopicPartition

from tests.cluster.test_clients import create, produce, read_confluent
from tests.muster_process import Muster, eventually

TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)
HUGE_ARRAY = b"\0\3\0\1\0\0\0\1\xff\xff\x7f\xff\xff\xff"
HEARTBEAT_CUT = b"\0\x0c\0\0\0\0\0\1\xff\xff\0\2g"
BAD = {
    TLS: "looks like TLS",
    b"GET / HTTP/1.1\r\n\r\n": "looks like HTTP",
    b"\xff\xff\xff\xff": "a frame of -1 bytes",
    len(HUGE_ARRAY).to_bytes(4, "big") + HUGE_ARRAY: "an array of 2147483647 elements",
    len(HEARTBEAT_CUT).to_bytes(4, "big") + HEARTBEAT_CUT: "HeartbeatRequest v0",
}


def closed_after(address: str, data: bytes) -> int:
    """Send, and wait for the gateway to close; returns the client's own port."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(data)
        try:
            while client.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return int(client.getsockname()[1])


def closed(muster: Muster) -> set[str]:
    """Return all lines about connections that gateways have closed."""
    logs = (muster.storage / "run" / "log").glob("gateway-*.log")
    return {line for log in logs for line in log.read_text().splitlines() if " closed: " in line}


def test_bad_input_closes_its_connection_and_no_other(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("t"), fresh("g")
    create(muster, topic)
    produce(muster, topic, [b"before"] * 10)
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=muster.bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    values: list[bytes] = []

    def read() -> int:
        values.extend(record.value for records in consumer.poll(500).values() for record in records)
        return len(values)

    eventually(read, lambda count: count == 10, "the first records")
    pids = {name: actor["pid"] for name, actor in muster.actors().items()}
    for address in muster.ready["bootstrap"]:
        for data, reason in BAD.items():
            before = closed(muster)  # a connection of an earlier test may have had the same port
            own = f":{closed_after(address, data)} closed: "
            (line,) = eventually(
                lambda before=before, own=own: [line for line in closed(muster) - before if own in line],
                bool,
                "the line in the log",
            )
            assert reason in line
    produce(muster, topic, [b"after"] * 10)
    eventually(read, lambda count: count == 20, "the records after")
    consumer.commit()
    consumer.close()
    assert {name: actor["pid"] for name, actor in muster.actors().items() if name in pids} == pids
    described = json.loads(muster.cli("groups", "describe", group, "--json"))
    assert group in json.dumps(described)


def test_random_bytes_end_no_gateway(muster: Muster) -> None:
    pids = {name: actor["pid"] for name, actor in muster.actors().items()}
    rng = random.Random(7)
    for number in range(100):
        address = muster.ready["bootstrap"][number % len(muster.ready["bootstrap"])]
        body = bytes((0, rng.randrange(0, 61), 0, rng.randrange(0, 14))) + rng.randbytes(rng.randrange(400))
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(len(body).to_bytes(4, "big") + body)
    assert {name: actor["pid"] for name, actor in muster.actors().items() if name in pids} == pids
    for pid in pids.values():
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "kind", ["a/b/../c", "two\nlines", "grüppe 🦔", "x" * 4000], ids=["slash", "line", "emoji", "long"]
)
def test_groups_of_odd_names(muster: Muster, fresh: Callable[[str], str], kind: str) -> None:
    topic, group = fresh("t"), kind + fresh("-")
    create(muster, topic, 1)
    produce(muster, topic, [b"x"] * 5)
    assert read_confluent(muster, topic, group, 5) == [b"x"] * 5
    again = kafka.KafkaConsumer(bootstrap_servers=muster.bootstrap, group_id=group)
    assert again.committed(TopicPartition(topic, 0)) == 5
    again.close()
    assert group in {item["group"] for item in json.loads(muster.cli("groups", "list", "--json"))}


def test_a_client_that_is_turned_away_is_named(muster: Muster) -> None:
    """Telegraf with its defaults sends Fetch v3, as sarama does."""
    frame = b"\0\1\0\3\0\0\0\1\0\x08Telegraf" + b"\xff" * 12 + bytes(4)
    closed_after(muster.bootstrap.split(",")[1], len(frame).to_bytes(4, "big") + frame)
    (client,) = [each for each in muster.status()["clients_turned_away"] if each["client_id"] == "Telegraf"]
    assert (client["gateway"], client["host"]) == ("gateway-2", "127.0.0.1")
    assert (client["api"], client["version"], client["times"]) == ("Fetch", 3, 1)
    assert "TURNED AWAY" in (table := muster.cli("status"))
    assert 'kafka_version = "2.1.0"' in table
    findings = json.loads(muster.run("doctor", "--json", "--port", "0").stdout)
    said = "'Telegraf' at 127.0.0.1 sends Fetch version 3 (1 times)"
    expected = {"check": "client turned away", "level": "warning", "found": said, "mend": client["mend"]}
    assert expected in findings
