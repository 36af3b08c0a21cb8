"""A whole Muster that requires logins, on an IPv6 address: real clients, Muster's own commands, attribution."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from muster.gateway.cli.main import cli
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.cluster

TOPIC, GROUP, COUNT, WAIT_S = "orders", "billing", 50, 60.0
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": "of ann",
}


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For ``--command-config``; the users' file is in the same folder."""
    file = tmp_path_factory.mktemp("users") / "client.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in LOGIN.items()))
    return file


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, login: Path) -> Iterator[Muster]:
    users = login.with_name("users.properties")
    muster = Muster(
        tmp_path_factory.mktemp("secured") / "storage",
        arguments=["--gateways", "1"],
        properties={
            "listeners": "SASL_PLAINTEXT://[::1]:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.credentials.file": str(users),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
        },
    )
    added = CliRunner().invoke(cli, ["user", "add", "ann", "--file", str(users), "--password", LOGIN["sasl.password"]])
    assert added.exit_code == 0, added.output
    with muster:
        yield muster


def test_the_group_of_a_client_that_logged_in(secured: Muster, login: Path) -> None:
    """The principal reaches the mapping through gateway, coordinator and ZooKeeper, and all bytes are the group's."""
    assert secured.bootstrap.startswith("[::1]:")
    secured.cli("topics", "create", TOPIC, "--partitions", "1", "--command-config", str(login))
    client = {"bootstrap.servers": secured.bootstrap, **LOGIN}
    producer = Producer(client)
    for number in range(COUNT):
        producer.produce(TOPIC, str(number))
    assert producer.flush(WAIT_S) == 0
    del producer
    consumer = Consumer({**client, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    try:
        read = [message.value() for message in consumer.consume(COUNT, WAIT_S)]
        assert read == [str(number).encode() for number in range(COUNT)]
        eventually(lambda: _attributed(secured), lambda counts: counts == {GROUP: COUNT}, "all belong to the group")
        nodes = eventually(lambda: _mapped(secured), lambda rows: len(rows) == 2, "its own node, and KoP's")
        assert {(node["kind"], node["group"], node["host"], node.get("principal")) for node in nodes} == {
            ("member", GROUP, "::1", "User:ann"),
            ("kop", GROUP, "::1", None),
        }
    finally:
        consumer.close()


def _attributed(muster: Muster) -> dict[str, int]:
    """Messages by group in /metrics; "" for those without a group."""
    with urllib.request.urlopen(muster.metrics_urls[0]) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    return {
        sample.labels.get("group", ""): int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name in ("muster_group_fetch_messages_total", "muster_unattributed_fetch_messages_total")
        and sample.value
    }


def _mapped(muster: Muster) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(muster.cli("mapping", "list", "--format", "json"))
    return rows


def test_clients_without_the_right_login_are_refused(secured: Muster) -> None:
    for wrong in ({}, {**LOGIN, "sasl.password": "wrong"}):
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": secured.bootstrap, **wrong}).list_topics(timeout=5)
    refused = secured.run("topics", "list")
    assert refused.returncode != 0
    assert "--command-config" in refused.stderr
