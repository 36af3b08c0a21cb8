"""librdkafka and the command `muster quotas`, with quotas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer

from muster.gateway.cli.security.quotas import quotas
from muster.placement.security.entities import Entity
from tests.gateway.quotas.requests import limit
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving
from tests.zookeeper_fixture import eventually


@pytest.fixture
def bootstrap(full: Serving) -> Iterator[str]:
    with reachable(full) as found:
        yield found


def throttle_ms(stats: list[str]) -> int:
    """Return the longest throttle time that the client has seen."""
    brokers = [broker for text in stats for broker in json.loads(text)["brokers"].values()]
    return max((broker["throttle"]["max"] for broker in brokers), default=0)


def throttled(full: Serving, quota: str) -> list[tuple[Any, int, int]]:
    return [
        (each.who, each.responses, each.total_ms)
        for each in full.gateway._client_quotas.throttles
        if each.quota == quota
    ]


def test_a_producer_and_a_consumer_keep_to_their_rates(full: Serving, fresh: Any, bootstrap: str) -> None:
    topic, group = fresh("t"), fresh("g")
    full.create(topic, 1)
    value, count, rate = b"v" * 10_000, 30, 20_000
    stats: list[str] = []
    common = {"bootstrap.servers": bootstrap, "statistics.interval.ms": 50, "stats_cb": stats.append}
    limit(full, Entity.of_client("slow producer"), producer_byte_rate=float(rate))
    producer = Producer(common | {"client.id": "slow producer", "linger.ms": 0, "batch.size": 20_000})
    delivered: list[Any] = []
    for _ in range(count):
        producer.produce(topic, value, on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(60) == 0
    assert delivered == [None] * count
    ((_, responses, total_ms),) = throttled(full, "producer_byte_rate")
    assert responses > 0
    eventually(lambda: producer.poll(0.05) or throttle_ms(stats), "what the client has seen")
    assert throttle_ms(stats) <= total_ms
    # 10 s of the quota are free; the rest takes its time.
    assert total_ms >= (count * len(value) / rate - 10) * 1_000 * 0.5

    limit(full, Entity.of_client("slow consumer"), consumer_byte_rate=float(rate))
    stats.clear()
    consumer = Consumer(common | {"client.id": "slow consumer", "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[int] = []

    def all_read() -> bool:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None
            read.append(message.offset() or 0)
        return len(read) == count

    eventually(all_read, "all records", within_s=60)
    assert read == list(range(count))
    assert throttled(full, "consumer_byte_rate")
    eventually(lambda: consumer.poll(0.05) or throttle_ms(stats), "what the client has seen")
    consumer.close()


def run(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(quotas, [arguments[0], "--bootstrap-server", bootstrap, *arguments[1:]])


def listed(bootstrap: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(bootstrap, "list", "--json").stdout)
    return found


def test_people_set_quotas(full: Serving, bootstrap: str, fresh: Any) -> None:
    group, before = fresh("g"), listed(bootstrap)
    assert run(bootstrap, "set", "--user", "ann", "--producer-rate", "10MiB/s", "--mutation-rate", "0.5").exit_code == 0
    assert run(bootstrap, "set", "--user", "ann", "--client-id", "<default>", "--consumer-rate", "1.5kB").exit_code == 0
    assert run(bootstrap, "set", "--ip", "10.0.0.1", "--connection-rate", "7").exit_code == 0
    assert run(bootstrap, "set", "--group", group, "--group-rate", "5MB/s").exit_code == 0
    assert [row for row in listed(bootstrap) if row not in before] == [
        {"ip": "10.0.0.1", "quota": "connection_creation_rate", "value": 7.0},
        {"user": "ann", "quota": "controller_mutation_rate", "value": 0.5},
        {"user": "ann", "quota": "producer_byte_rate", "value": 10.0 * (1 << 20)},
        {"user": "ann", "client-id": None, "quota": "consumer_byte_rate", "value": 1500.0},
        {"group": group, "quota": "group_byte_rate", "value": 5e6},
    ]
    table = run(bootstrap, "list").stdout
    assert "user ann, client-id <default>" in table
    assert full.gateway._client_quotas.group(group) is not None
    assert run(bootstrap, "remove", "--user", "ann", "--quota", "producer_byte_rate").exit_code == 0
    assert run(bootstrap, "remove", "--user", "ann").exit_code == 0
    assert run(bootstrap, "remove", "--user", "ann", "--client-id", "<default>").exit_code == 0
    assert run(bootstrap, "remove", "--ip", "10.0.0.1").exit_code == 0
    assert run(bootstrap, "remove", "--group", group).exit_code == 0
    assert listed(bootstrap) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "--user", "u"), "a quota to set"),
        (("set", "--producer-rate", "1MB"), "Name a user"),
        (("set", "--user", "u", "--producer-rate", "ten"), "is no rate"),
        (("set", "--user", "u", "--producer-rate", "0"), "less than 1 byte"),
        (("set", "--group", "g", "--producer-rate", "1MB"), "belong together"),
        (("set", "--user", "u", "--ip", "10.0.0.1", "--connection-rate", "1"), "Name a user"),
        (("set", "--user", "u", "--connection-rate", "1"), "Invalid configuration key"),
        (("remove",), "Name a user"),
    ],
)
def test_what_makes_no_sense_is_refused(bootstrap: str, arguments: tuple[str, ...], said: str) -> None:
    result = run(bootstrap, *arguments)
    assert result.exit_code != 0
    assert said in f"{result.output}{result.exception}"
