"""Real clients log in, produce and consume; and their errors without permission."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from muster.gateway.cli.main import cli
from muster.gateway.security.credentials import read, write
from muster.gateway.security.mechanism_names import MECHANISMS
from muster.gateway.security.scram import SCRAM_MECHANISMS, ScramCredential
from tests.gateway.serving import Serving
from tests.zookeeper_fixture import eventually

PASSWORD = "secret"
_ADMIT_S = 20.0


def PROPERTIES(storage: Path) -> dict[str, str]:
    held = {mechanism: ScramCredential.of_password(mechanism, PASSWORD) for mechanism in SCRAM_MECHANISMS}
    write(storage / "users.properties", {"ann": held})
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.credentials.file": str(storage / "users.properties"),
        "group.initial.rebalance.delay.ms": "0",
    }


def _confluent(server: str, topic: str, group: str, mechanism: str) -> list[bytes]:
    login = {
        "bootstrap.servers": server,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }
    producer = Producer(login)
    producer.produce(topic, b"hello")
    assert producer.flush(_ADMIT_S) == 0
    consumer = Consumer({**login, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(_ADMIT_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return [message.value() or b""]


def _kafka_python(server: str, topic: str, group: str, mechanism: str) -> list[bytes]:
    login: dict[str, Any] = {
        "bootstrap_servers": server,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**login)
    producer.send(topic, b"hello").get(_ADMIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=int(_ADMIT_S * 1000), **login
    )
    message = next(iter(consumer))
    consumer.close()
    return [message.value]


def _aiokafka(server: str, topic: str, group: str, mechanism: str) -> list[bytes]:
    login: dict[str, Any] = {
        "bootstrap_servers": server,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": PASSWORD,
    }

    async def run() -> list[bytes]:
        async with AIOKafkaProducer(**login) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, group_id=group, auto_offset_reset="earliest", **login) as consumer:
            message = await asyncio.wait_for(consumer.getone(), _ADMIT_S)
        return [message.value]

    return asyncio.run(run())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", [_confluent, _kafka_python, _aiokafka])
def test_clients_produce_and_consume(full: Serving, client: Callable[..., list[bytes]], mechanism: str) -> None:
    topic, group = f"t-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    server = full.reachable()
    full.create(topic)
    assert client(server, topic, group, mechanism) == [b"hello"]
    assert full.actors is not None
    assert {one.principal for one in full.actors.changes.of_group(group)} == {"User:ann"}


@pytest.mark.parametrize(
    ("login", "code"),
    [
        ({"sasl.username": "ann", "sasl.password": "wrong"}, KafkaError._AUTHENTICATION),
        ({"sasl.username": "bob", "sasl.password": PASSWORD}, KafkaError._AUTHENTICATION),
    ],
)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_login_is_reported_as_such(full: Serving, login: dict[str, str], code: int, mechanism: str) -> None:
    errors: list[KafkaError] = []
    client = AdminClient(
        {
            "bootstrap.servers": full.reachable(),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "error_cb": cast(Any, errors.append),  # its type leaves callables out
            **login,
        }
    )
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)
    while code not in {error.code() for error in errors}:
        client.poll(0.1)


def test_a_client_without_a_login_is_not_served(full: Serving, caplog: pytest.LogCaptureFixture) -> None:
    client = AdminClient({"bootstrap.servers": full.reachable()})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    why = "came before the client has authenticated; set security.protocol=SASL_PLAINTEXT"
    eventually(lambda: why in caplog.text, why)


def _muster(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


LOGINS = {
    "librdkafka's names": "sasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=secret\n",
    "Java's": "sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule "
    'required username="ann" password="secret";\n',
}


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS.keys())
def test_musters_own_commands_log_in(full: Serving, tmp_path: Path, login: str) -> None:
    (tmp_path / "login.properties").write_text(f"security.protocol=SASL_PLAINTEXT\n{login}")
    server, topic, group = full.reachable(), f"t-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    there = ("--bootstrap-server", server, "--command-config", str(tmp_path / "login.properties"))
    full.create(topic)
    assert _confluent(server, topic, group, "PLAIN") == [b"hello"]
    listed = _muster("topics", "list", *there)
    assert topic in listed.stdout
    described = _muster("groups", "describe", group, *there)
    assert described.exit_code == 0, described.output
    assert topic in described.stdout


def test_musters_own_commands_say_what_they_need(full: Serving, tmp_path: Path) -> None:
    there = ("--bootstrap-server", full.reachable())
    file = tmp_path / "login.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=wrong\n")
    refused = _muster("topics", "list", *there, "--command-config", str(file))
    assert refused.exit_code == 1
    assert "refuses the login" in refused.output
    file.write_text("security.protocol=SASL_SSL\n")
    assert "SASL_PLAINTEXT" in _muster("topics", "list", *there, "--command-config", str(file)).output


def test_muster_user_adds_and_removes(full: Serving, tmp_path: Path) -> None:
    file = str(tmp_path / "users.properties")
    assert _muster("user", "add", "eve = x", "--file", file, "--password", "open sesame").exit_code == 0
    users = read(Path(file))
    assert users["eve = x"]["SCRAM-SHA-512"].is_of("SCRAM-SHA-512", "open sesame")
    assert "sesame" not in Path(file).read_text()
    assert _muster("user", "remove", "bob", "--file", file).exit_code == 1
    assert _muster("user", "remove", "eve = x", "--file", file).exit_code == 0
    assert read(Path(file)) == {}
