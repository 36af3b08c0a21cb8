"""The audit of what real clients do, without Ray: librdkafka against a real gateway, coordinators and log actors."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.audit.report import Cause
from muster.gateway.attribution.verdict import Evidence, Verdict
from tests.audit.local_sources import LocalAudit
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}
MESSAGES = 200
WITHIN_S = 30.0

Fresh = Callable[[str], str]


@pytest.fixture
def audit(full: Serving) -> Iterator[LocalAudit]:
    """Yield an audit that has completed its first round."""
    with reachable(full):
        made = LocalAudit(full)
        made.round()
        yield made


@pytest.fixture
def bootstrap(full: Serving, audit: LocalAudit) -> str:
    return f"127.0.0.1:{full.port}"


@pytest.fixture
def topic(full: Serving, bootstrap: str, fresh: Fresh) -> str:
    """One partition with MESSAGES messages in batches of ten."""
    name = fresh("audited")
    fill(full, bootstrap, name)
    return name


def fill(full: Serving, bootstrap: str, name: str) -> None:
    full.create(name)
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10, "linger.ms": 5})
    for number in range(MESSAGES):
        producer.produce(name, b"%d" % number * 20)
    assert producer.flush(WITHIN_S) == 0


class Reader:
    """A consumer that commits on demand."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "message.max.bytes": 1_000,
                "fetch.max.bytes": 1_000,
                "max.partition.fetch.bytes": 1_000,
                "queued.max.messages.kbytes": 1,
            }
        )
        self._topic = topic
        self._consumer.subscribe([topic])

    def read_to(self, offset: int) -> None:
        """Until the message before that offset has arrived."""
        while True:
            message = self._consumer.poll(WITHIN_S)
            assert message is not None, "nothing came"
            assert message.error() is None, message.error()
            if message.offset() == offset - 1:
                return

    def commit(self, offset: int) -> None:
        self._consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)

    def seek(self, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, 0, offset))

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def reader(bootstrap: str, topic: str, group: str) -> Iterator[Reader]:
    made = Reader(bootstrap, topic, group)
    yield made
    made.close()


@pytest.fixture
def group(fresh: Fresh) -> str:
    return fresh("auditors")


def test_who_reads_everything_and_commits_it_has_no_drift(audit: LocalAudit, reader: Reader, group: str) -> None:
    for offset in (7, 60, 123):
        reader.read_to(offset)
        reader.commit(offset)
        audit.round()
        row = audit.row(group)
        assert set(row.drift_bytes) <= {Cause.PREFETCH}
    reader.read_to(MESSAGES)
    reader.commit(MESSAGES)
    audit.judged()
    row = audit.row(group)
    assert row.drift_bytes == {}
    assert row.attributed_bytes == row.implied_bytes > MESSAGES * 20


def test_a_seek_forward_is_a_reset(audit: LocalAudit, reader: Reader, group: str) -> None:
    reader.read_to(10)
    reader.commit(10)
    reader.seek(MESSAGES - 10)
    reader.read_to(MESSAGES)
    reader.commit(MESSAGES)
    audit.judged()
    row = audit.row(group)
    assert set(row.drift_bytes) == {Cause.RESET}
    assert row.implied_bytes - row.attributed_bytes == row.drift_bytes[Cause.RESET]


def test_reading_again_from_the_beginning_is_a_reread(audit: LocalAudit, reader: Reader, group: str) -> None:
    for _ in range(2):
        reader.read_to(MESSAGES)
        reader.commit(MESSAGES)
        reader.seek(0)
    reader.read_to(MESSAGES)
    audit.judged()
    row = audit.row(group)
    assert set(row.drift_bytes) == {Cause.REREAD}
    assert row.drift_bytes[Cause.REREAD] == 2 * row.implied_bytes


def test_offsets_that_an_admin_alters(
    audit: LocalAudit, reader: Reader, group: str, bootstrap: str, topic: str
) -> None:
    reader.read_to(10)
    reader.commit(10)
    reader.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    offsets = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, MESSAGES)])
    admin.alter_consumer_group_offsets([offsets])[group].result(WITHIN_S)
    audit.judged()
    assert Cause.ADMIN_COMMIT in audit.row(group).drift_bytes
    assert audit.row(group).unexplained_bytes == 0


def test_attributions_that_are_lost(
    full: Serving,
    audit: LocalAudit,
    bootstrap: str,
    topic: str,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    account = full.gateway.account
    with monkeypatch.context() as patch:
        for method in ("updates", "replace", "group_request"):
            patch.setattr(account, method, lambda *_, **__: None)
        reader = Reader(bootstrap, topic, group)
        reader.read_to(50)
        reader.commit(50)
        reader.read_to(MESSAGES)
        reader.commit(MESSAGES)
        reader.close()
        with caplog.at_level(logging.WARNING, logger="muster.actors.audit.auditor"):
            audit.judged()
    row = audit.row(group)
    assert row.drift_bytes == {Cause.LOST: row.implied_bytes}
    assert row.implied_bytes > MESSAGES * 20
    [warning] = [record for record in caplog.records if record.name == "muster.actors.audit.auditor"]
    assert group in warning.getMessage()


def test_a_topic_that_is_created_again_between_two_rounds(
    full: Serving, audit: LocalAudit, bootstrap: str, topic: str, group: str
) -> None:
    """Sends and commits of the earlier topic are reported with those of the later one."""
    for is_again in (False, True):
        if is_again:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.delete_topics([topic])[topic].result(WITHIN_S)
            fill(full, bootstrap, topic)
        reader = Reader(bootstrap, topic, group)
        reader.read_to(MESSAGES)
        reader.commit(MESSAGES)
        reader.close()
    audit.judged()
    row = audit.row(group)
    assert row.drift_bytes == {}
    assert row.attributed_bytes == row.implied_bytes > MESSAGES * 20


def test_a_reader_without_a_group_that_gets_the_label_of_a_simple_consumer(
    full: Serving, audit: LocalAudit, bootstrap: str, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_all_by_assign(bootstrap, topic, group, commit=True)
    audit.judged()
    assert audit.row(group).drift_bytes == {}
    rules = full.gateway.account._evidence_rules
    with monkeypatch.context() as patch:
        patch.setattr(rules, "judge", lambda *_: Verdict.of(group, None, Evidence.UNIQUE_CANDIDATE))
        read_all_by_assign(bootstrap, topic, group, commit=False)
    audit.judged()
    row = audit.row(group)
    assert row.drift_bytes == {Cause.MISLABELLED: row.implied_bytes}
    assert row.attributed_bytes == 2 * row.implied_bytes > 0


def read_all_by_assign(bootstrap: str, topic: str, group: str, *, commit: bool) -> None:
    """Read without membership and, without ``commit``, without any request of the group."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "client.id": group, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(MESSAGES):
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert message.error() is None, message.error()
    if commit:
        consumer.commit(offsets=[TopicPartition(topic, 0, MESSAGES)], asynchronous=False)
    consumer.close()


def test_metrics_and_http_report_the_audit(full: Serving, audit: LocalAudit, reader: Reader, group: str) -> None:
    reader.read_to(MESSAGES)
    reader.commit(40)
    audit.round()
    row = audit.row(group)
    status, text = full.http("/metrics")
    assert status == 200
    found = {
        (sample.name, sample.labels.get("cause")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("muster_audit") and sample.labels.get("group", group) == group
    }
    assert found["muster_audit_implied_bytes_total", None] == row.implied_bytes > 0
    assert found["muster_audit_attributed_bytes_total", None] == row.attributed_bytes
    assert found["muster_audit_drift_bytes", "prefetch"] == row.drift_bytes[Cause.PREFETCH]
    assert found["muster_audit_rounds_total", None] == 2
    status, body = full.http(f"/v1/audit?group={group}")
    assert status == 200
    assert json.loads(body)["rows"] == [row.to_json()]
