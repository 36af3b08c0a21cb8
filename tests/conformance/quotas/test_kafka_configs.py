"""``kafka-configs`` with quotas and SCRAM credentials: the same output from both servers."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.kafka import KafkaBroker
from tests.gateway.quotas.world import remove_all
from tests.gateway.serving import Client
from tests.muster_process import Muster

USER, CLIENT = ("--entity-type", "users", "--entity-name", "ann"), ("--entity-type", "clients", "--entity-name", "app")
ANY_USER, ANY_CLIENT = ("--entity-type", "users", "--entity-default"), ("--entity-type", "clients", "--entity-default")
IP, ANY_IP = ("--entity-type", "ips", "--entity-name", "10.0.0.7"), ("--entity-type", "ips", "--entity-default")
USERS, CLIENTS, IPS = (("--entity-type", each) for each in ("users", "clients", "ips"))


def _add(configs: str, *entity: str) -> tuple[str, ...]:
    return ("--alter", *entity, "--add-config", configs)


def _delete(configs: str, *entity: str) -> tuple[str, ...]:
    return ("--alter", *entity, "--delete-config", configs)


SCRIPT: tuple[tuple[str, ...], ...] = (
    _add("producer_byte_rate=1024,request_percentage=12.5,controller_mutation_rate=0.5", *USER),
    _add("consumer_byte_rate=2048", *USER, *CLIENT),
    _add("consumer_byte_rate=4096", *USER, *ANY_CLIENT),
    _add("producer_byte_rate=8192", *ANY_USER),
    _add("producer_byte_rate=16384", *ANY_CLIENT),
    _add("connection_creation_rate=2000", *IP),
    _add("connection_creation_rate=3000", *ANY_IP),
    _add("SCRAM-SHA-256=[iterations=8192,password=secret]", *USER),
    _add("SCRAM-SHA-512=[password=secret]", *USER),
    ("--describe", *USERS),
    ("--describe", *USERS, *CLIENTS),
    ("--describe", *CLIENTS),
    ("--describe", *IPS),
    _delete("producer_byte_rate", *USER),
    _delete("SCRAM-SHA-256", *USER),
    _delete("SCRAM-SHA-256", *USER),
    ("--describe", *USER),
)
"""Each command starts a Java."""


def test_the_output_is_kafkas(muster: Muster, broker: KafkaBroker, release: Kafka) -> None:
    with ThreadPoolExecutor() as pool:
        ours, kafkas = pool.map(_outputs, (Tools(release, muster.bootstrap), Tools(release, broker.bootstrap_servers)))
    assert dict(enumerate(ours)) == dict(enumerate(kafkas))


def _outputs(tools: Tools) -> list[tuple[bool, list[str]]]:
    try:
        found = [tools.attempt_configs(*command) for command in SCRIPT]
    finally:
        _restore(tools.bootstrap)
    return [(is_done, _lines(text.replace(tools.bootstrap, "BOOTSTRAP"))) for is_done, text in found]


def _restore(bootstrap: str) -> None:
    """Other checks have clients, too."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as client:
        remove_all(client)


def _lines(text: str) -> list[str]:
    """In an order of their own, as the quotas of an entity; without Java's stack."""
    lines = [line for line in text.splitlines() if not re.match(r"\s+at |\s+\.\.\. ", line)]
    return sorted(_sorted_quotas(line) for line in lines)


def _sorted_quotas(line: str) -> str:
    head, found, quotas = line.partition(" are ")
    return head + found + ", ".join(sorted(quotas.split(", ")))
