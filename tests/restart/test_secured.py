"""A whole Muster that requires logins, on an IPv6 address: clients, Muster's own commands, attribution, secrets."""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.tables.reading import read
from muster.actors.tables.schemas import TABLES
from muster.gateway.cli.main import cli
from tests.certificates import Authority
from tests.muster_process import Muster, eventually

TOPIC, GROUP, COUNT, WAIT_S = "orders", "billing", 50, 60.0
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": "planted-secret-of-ann",
}


KEYSTORE_PASSWORD = "planted-secret-of-the-keystore"


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For ``--command-config``; the users' file is in the same folder."""
    file = tmp_path_factory.mktemp("users") / "client.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in LOGIN.items()))
    return file


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, login: Path) -> Iterator[Muster]:
    users = login.with_name("users.properties")
    keystore = Authority().issue("CN=gateway").write_pkcs12(login.with_name("gateway.p12"), KEYSTORE_PASSWORD)
    properties = {
        "listeners": "SASL_PLAINTEXT://[::1]:0,SSL://[::1]:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.password": KEYSTORE_PASSWORD,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.credentials.file": str(users),
        "http.tokens.file": str(login.with_name("tokens.properties")),
        "fault.injection.enable": "true",
        "metrics.events.flush.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
    }
    config = login.with_name("muster.properties")
    config.write_text("\n".join(f"{name}={value}" for name, value in properties.items()))
    storage = tmp_path_factory.mktemp("secured") / "storage"
    muster = Muster(storage, arguments=["--gateways", "1", "--config", str(config)])
    added = CliRunner().invoke(cli, ["user", "add", "ann", "--file", str(users), "--password", LOGIN["sasl.password"]])
    assert added.exit_code == 0, added.output
    token = CliRunner().invoke(cli, ["token", "add", "tester", "--file", str(login.with_name("tokens.properties"))])
    assert token.exit_code == 0, token.output
    login.with_name("token").write_text(token.output)
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


def test_a_group_is_described_without_rights_on_the_http_port(secured: Muster, login: Path) -> None:
    """Its lag in seconds is left out: SCRAM's password is not sent in clear."""
    done = secured.run("groups", "describe", GROUP, "--command-config", str(login))
    assert done.returncode == 0, done.stderr
    assert TOPIC in done.stdout
    assert "no lag in seconds" in done.stdout


def _attributed(muster: Muster) -> dict[str, int]:
    """Messages by group in /metrics; "" for those without a group."""
    user = base64.b64encode(f"{LOGIN['sasl.username']}:{LOGIN['sasl.password']}".encode()).decode()
    request = urllib.request.Request(muster.metrics_urls[0], headers={"Authorization": f"Basic {user}"})
    with urllib.request.urlopen(request) as response:
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


def test_secrets_are_where_they_belong_alone(secured: Muster, login: Path) -> None:
    """After logins, requests and faults that succeed and fail: passwords, tokens and credentials are nowhere else."""
    token_file = login.with_name("token")
    by_token = replace(secured, environment={**os.environ, "MUSTER_HTTP_TOKEN_FILE": str(token_file)})
    refused = secured.run("fault", "list")
    assert (refused.returncode, "401" in refused.stderr or "may not do this" in refused.stderr) == (1, True)
    wrong = "planted-but-wrong"
    for header in (f"Bearer {wrong}", f"Basic {base64.b64encode(f'ann:{wrong}'.encode()).decode()}"):
        request = urllib.request.Request(secured.metrics_urls[0], headers={"Authorization": header})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request)
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": secured.bootstrap, **LOGIN, "sasl.password": wrong}).list_topics(timeout=5)
    by_token.cli("fault", "inject", "drop", "--api", "Heartbeat")
    by_token.cli("fault", "clear")
    secured.cli("topics", "create", "of-ann", "--partitions", "1", "--command-config", str(login))
    of_bob = login.with_name("bob")
    of_bob.write_text("planted-secret-of-bob")
    over_kafka = ("--bootstrap-server", secured.bootstrap, "--command-config", str(login))
    secured.cli("user", "add", "bob", "--password-file", str(of_bob), *over_kafka)
    trail = eventually(lambda: _audit_log(secured), lambda rows: len(rows) >= 4, "the trail is written")
    assert {("User:ann", "CreateTopics"), ("User:tester", "POST /v1/faults"), ("User:tester", "DELETE /v1/faults")} <= {
        (row["principal"], row["api"]) for row in trail
    }

    credentials, ray_token = secured.storage / "zookeeper/credentials", secured.storage / "run/ray-token"
    secrets = {
        "password": LOGIN["sasl.password"],
        "wrong password": wrong,
        "password by AlterUserScramCredentials": of_bob.read_text(),
        "keystore": KEYSTORE_PASSWORD,
        "token": token_file.read_text().strip(),
        "ZooKeeper": credentials.read_text().strip().partition(":")[2],
        "Ray": ray_token.read_text().strip(),
    }
    assert secured.process is not None
    family = [psutil.Process(secured.process.pid), *psutil.Process(secured.process.pid).children(recursive=True)]
    places = {
        "status": secured.cli("status", "--json"),
        "doctor": str(secured.run("doctor", "--config", str(login.with_name("muster.properties")))),
        "configs": _configs(secured),
        "output": (secured.storage.parent / f"{secured.storage.name}.log").read_text(),
        **{f"process {each.pid}": f"{each.cmdline()} {each.environ()}" for each in family if each.is_running()},
        **{f"node {path}": text for path, text in _nodes(secured).items()},
        **{f"table {name}": str(read(secured.storage, name).to_pylist()) for name in TABLES},
        **{
            f"file {path}": path.read_bytes().decode("latin-1")
            for path in secured.storage.rglob("*")
            if path.is_file() and path not in (credentials, ray_token)
        },
    }
    assert len(family) > 5
    assert "secrets" in places["doctor"]
    assert "ssl.keystore.location" in places["configs"]
    assert "/config/users/bob" in {place.removeprefix("node ") for place in places}
    found = [(place, name) for place, text in places.items() for name, secret in secrets.items() if secret in text]
    assert found == []


def _audit_log(muster: Muster) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(muster.cli("audit-log", "--json"))
    return rows


def _configs(muster: Muster) -> str:
    """Return the configs of the gateway, as DescribeConfigs has them."""
    admin = AdminClient({"bootstrap.servers": muster.bootstrap, **LOGIN})
    (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    return str({name: entry.value for name, entry in found.result(WAIT_S).items()})


def _nodes(muster: Muster) -> dict[str, str]:
    zk = muster.zookeeper()
    found = {}
    try:
        paths = ["/"]
        while paths:
            path = paths.pop()
            found[path] = zk.get(path)[0].decode("latin-1")
            paths += [f"{path.rstrip('/')}/{name}" for name in zk.get_children(path)]
    finally:
        zk.shut()
    return found
