"""Subscriptions to client metrics with Kafka's own tool, and what Java's consumer and librdkafka push (KIP-714)."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer
from prometheus_client.parser import text_string_to_metric_families

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools, VerifiableConsumer, wait_until
from tests.conformance.topics import create_topic, fill, now_ms
from tests.muster_process import Muster, eventually

COMMAND = "ClientMetricsCommand"
Fresh = Callable[[str], str]


@pytest.fixture
def tools(bootstrap: str, release: Kafka) -> Tools:
    return Tools(release, bootstrap)


def test_subscriptions(tools: Tools, fresh: Fresh) -> None:
    name = fresh("subscription")
    limits = ["--metrics", "org.a,org.b", "--interval", "30000", "--match", "client_id=reader.*"]
    assert f"Altered client metrics config for {name}." in tools.run(COMMAND, "--alter", "--name", name, *limits)
    assert name in tools.run(COMMAND, "--list").split()
    described = tools.run(COMMAND, "--describe", "--name", name)
    assert f"Client metrics configs for {name} are:" in described
    assert {line.strip() for line in described.splitlines()[1:] if line.strip()} == {
        "interval.ms=30000",
        "match=client_id=reader.*",
        "metrics=org.a,org.b",
    }
    assert f"Deleted client metrics config for {name}." in tools.run(COMMAND, "--delete", "--name", name)
    assert name not in tools.run(COMMAND, "--list").split()


@pytest.fixture
def subscribed(muster: Muster, release: Kafka, fresh: Fresh) -> Iterator[str]:
    """Yield the name of a topic and a group, whose consumers push all metrics every second."""
    name = fresh("telemetry")
    tools = Tools(release, muster.bootstrap)
    tools.run(COMMAND, "--alter", "--name", name, "--metrics", "*", "--interval", "1000")
    offers = "GetTelemetrySubscriptions(71): 0"
    eventually(
        lambda: tools.run("BrokerApiVersionsCommand").count(offers), lambda found: found == 2, "both gateways offer it"
    )
    create_topic(muster.bootstrap, name, 2)
    for partition in (0, 1):
        fill(muster.bootstrap, name, partition, [now_ms()] * 10)
    yield name
    tools.run(COMMAND, "--delete", "--name", name)


def pushed(muster: Muster, group: str) -> dict[str, float]:
    """Return the values of all metrics that clients of the group have pushed, added up."""
    found: dict[str, float] = {}
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url) as response:
            for family in text_string_to_metric_families(response.read().decode()):
                for one in family.samples:
                    if one.name.startswith("muster_client_metric_") and one.labels.get("group") == group:
                        metric = one.labels["metric"]
                        found[metric] = found.get(metric, 0) + one.value
    return found


def test_the_java_consumer_pushes(muster: Muster, release: Kafka, subscribed: str) -> None:
    consumer = VerifiableConsumer(release, muster.bootstrap, "java", topic=subscribed, group=subscribed)
    with consumer:
        wait_until(lambda: len(consumer.values()) == 20, "it reads all records", consumer)
        name = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
        found = eventually(
            lambda: pushed(muster, subscribed), lambda found: found.get(name, 0) >= 20, "it has pushed", 60
        )
        assert [metric for metric in found if metric.startswith("org.apache.kafka.consumer.coordinator.")]


def test_librdkafka_pushes(muster: Muster, subscribed: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": muster.bootstrap,
            "group.id": subscribed,
            "auto.offset.reset": "earliest",
            "enable.metrics.push": True,
        }
    )
    try:
        consumer.subscribe([subscribed])
        found = eventually(
            lambda: (consumer.poll(0.5) and None) or pushed(muster, subscribed), bool, "it has pushed", 60
        )
        assert [metric for metric in found if metric.startswith("org.apache.kafka.consumer.")]
    finally:
        consumer.close()
