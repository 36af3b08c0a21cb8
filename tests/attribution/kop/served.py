"""A consumer of a real gateway, and that gateway's metrics about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from tests.gateway.apis.test_data_apis import fetch, produce
from tests.gateway.group_client import Member, find
from tests.gateway.serving import Client, Serving
from tests.group.driver import assignment
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

TOTAL, PENDING = "muster_fetch_bytes_total", "muster_pending_fetch_bytes"
BY_GROUP, BY_REASON = "muster_group_fetch_bytes_total", "muster_unattributed_fetch_bytes_total"


class Books(NamedTuple):
    """Bytes of one topic in a gateway's ``/metrics``."""

    sent: float
    groups: dict[str, float]
    reasons: dict[str, float]
    pending: float


def books(gateway: Serving, topic: str) -> Books:
    """One scrape; ``sent`` is the sum of all the others."""
    status, text = gateway.http("/metrics")
    assert status == 200
    sent = pending = 0.0
    groups: dict[str, float] = {}
    reasons: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("topic") != topic:
                continue
            if sample.name == TOTAL:
                sent += sample.value
            elif sample.name == PENDING:
                pending += sample.value
            elif sample.name == BY_GROUP:
                groups[sample.labels["group"]] = groups.get(sample.labels["group"], 0) + sample.value
            elif sample.name == BY_REASON and sample.value:
                reasons[sample.labels["reason"]] = reasons.get(sample.labels["reason"], 0) + sample.value
    assert sent == sum(groups.values()) + sum(reasons.values()) + pending
    return Books(sent, groups, reasons, pending)


def served(gateway: Serving, api: str) -> float:
    """Return the number of requests of that API whose handler has ended."""
    _, text = gateway.http("/metrics")
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return sum(s.value for s in samples if s.name == "muster_requests_total" and s.labels["api"] == api)


def settled(gateway: Serving, topic: str, size_bytes: float) -> Books:
    """Return the account once that many bytes of the topic were sent and none of them is pending."""

    def found() -> Books | None:
        now = books(gateway, topic)
        return now if (now.sent, now.pending) == (size_bytes, 0) else None

    result: Books = eventually(found, f"{size_bytes} bytes of {topic} under a label: {books(gateway, topic)}")
    return result


def join(client: Client, group: str, topic: str, partitions: Sequence[int]) -> Member:
    """Join a group as its only member, with these partitions."""
    find(client, 4, group)
    member = Member(client, group)
    assert member.join().error_code is ErrorCode.none
    given = assignment(*((topic, partition) for partition in partitions))
    assert member.sync({member.id: given}).error_code is ErrorCode.none
    return member


def write(client: Client, topic: Topic, *partitions: int, value: bytes = b"v" * 100) -> None:
    """Produce a batch of one record to each of the partitions."""
    results = produce(client, *((topic, partition, client_batch(value=value)) for partition in partitions or (0,)))
    assert {result.error_code for result in results} == {ErrorCode.none}


def read(client: Client, topic: Topic, partition: int = 0, offset: int = 0, *, version: int = 18) -> int:
    """Fetch; return the number of bytes."""
    (result,) = fetch(client, (topic, partition, offset), version=version)
    assert result.error_code is ErrorCode.none
    return len(result.records or b"")
