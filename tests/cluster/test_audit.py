"""The audit over Ray: a reader that commits what it read has no drift, counted once over all gateways."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.muster_process import Muster, eventually

PARTITIONS, MESSAGES = 3, 600
WAIT_S = 60.0


@pytest.fixture
def topic(muster: Muster, fresh: Callable[[str], str]) -> str:
    name = fresh("audited")
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(WAIT_S)
    producer = Producer({"bootstrap.servers": muster.bootstrap, "batch.num.messages": 20})
    for number in range(MESSAGES):
        producer.produce(name, b"%d" % number * 10, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    return name


def read_all(muster: Muster, topic: str, group: str, *, again: bool = False) -> None:
    """Read and commit the messages. ``again``: then read one partition once more, without a commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": muster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": not again,
        }
    )
    consumer.subscribe([topic])
    for _ in range(MESSAGES):
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None, message.error()
    if again:
        consumer.commit(asynchronous=False)
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(WAIT_S) is not None
        consumer.unassign()
    consumer.close()


def audited(muster: Muster, group: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(muster.cli("attribution-audit", "--group", group, "--json"))["rows"]
    return rows


def series(muster: Muster, group: str) -> list[tuple[str, float]]:
    """(partition, implied bytes) in the gateways' metrics."""
    found = []
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url, timeout=10) as response:
            for family in text_string_to_metric_families(response.read().decode()):
                found += [
                    (sample.labels["partition"], sample.value)
                    for sample in family.samples
                    if sample.name == "muster_audit_implied_bytes_total" and sample.labels["group"] == group
                ]
    return sorted(found)


def test_who_reads_everything_and_commits_it_has_no_drift(
    muster: Muster, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("audited")
    read_all(muster, topic, group)

    def no_drift(rows: list[dict[str, Any]]) -> bool:
        return [row["partition"] for row in rows] == [*range(PARTITIONS)] and not any(
            row["drift_bytes"] for row in rows
        )

    rows = eventually(lambda: audited(muster, group), no_drift, "attributed bytes equal to implied ones")
    assert all(row["attributed_bytes"] == row["implied_bytes"] > MESSAGES // PARTITIONS * 10 for row in rows)
    expected = [(str(row["partition"]), float(row["implied_bytes"])) for row in rows]
    eventually(lambda: series(muster, group), lambda found: found == expected, "each series once")


def test_rounds_go_on_while_it_is_unclear_who_read_again(
    muster: Muster, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("audited")
    read_all(muster, topic, group, again=True)

    def reread(rows: list[dict[str, Any]]) -> bool:
        return any(row["drift_bytes"].keys() == {"reread"} for row in rows)

    eventually(lambda: audited(muster, group), reread, "bytes that were read again")
    rounds = report(muster)["rounds"]
    later = eventually(lambda: report(muster), lambda found: found["rounds"] > rounds + 2, "further rounds")
    assert not any("mislabelled" in row["drift_bytes"] for row in later["rows"] if row["group"] == group)


def report(muster: Muster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(muster.cli("attribution-audit", "--json"))
    return found
