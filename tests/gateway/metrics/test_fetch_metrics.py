"""Labels of groups in a scrape of a real gateway: KoP's names, hostile ids, removed groups, too many series."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from muster.actors.runtime.process import now_ms
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.steps import finish
from muster.gateway.attribution.series import MAX_GROUP_CHARS, group_label
from muster.gateway.listener.upkeep import Upkeep
from muster.placement.view import Topic
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.attribution.kop.served import join, read
from tests.gateway.apis.test_data_apis import produce
from tests.gateway.group_client import Fresh, Member, delete, find
from tests.gateway.metrics.test_conservation import balanced
from tests.gateway.real_clients import reachable
from tests.gateway.serving import CLUSTER_ID, Serving, serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

RETENTION_MS = 60_000
FAR_MS = 62_000
"""By then nothing is pending any more."""
PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "metrics.kop.compatible": "true",
    "metrics.group.series.retention.ms": str(RETENTION_MS),
}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
HOSTILE = [
    'quote"s',
    "back\\slash",
    "new\nline",
    "back\\nslash n",
    'x",group="y',
    '"} 1\nfake_metric{a="b"} 2',
    "x\r\u2028\u2029\x85",
    "ünï \U0001f600",
    "~" * 300,
]


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    """Three batches of two records in one partition."""
    topic = full.create(fresh("t"))
    for _ in range(3):
        produce(full.client, (topic, 0, client_batch(2)))
    return topic


def samples(full: Serving, name: str, topic: str) -> list[Sample]:
    text = full.http("/metrics")[1]
    balanced(text)
    found = [sample for family in parse_text(text) for sample in family.samples]
    return [sample for sample in found if sample.name == name and sample.labels["topic"] == topic]


def groups(full: Serving, topic: str) -> dict[str, float]:
    """Messages by group."""
    found = samples(full, "muster_group_fetch_messages_total", topic)
    return {sample.labels["group"]: sample.value for sample in found}


def settle(full: Serving, at_ms: int) -> None:
    async def settle() -> None:
        finish(Upkeep(full.gateway.account).settle(at_ms))

    full.run(settle())


def member_that_read(full: Serving, group: str, topic: Topic) -> Member:
    client = full.connect(f"client of {group[:50]}")
    member = join(client, group, topic.name, [0])
    assert read(client, topic)
    return member


@pytest.mark.parametrize("group", HOSTILE)
def test_a_hostile_group_reads_back_as_it_is(full: Serving, topic: Topic, group: str) -> None:
    """F24, with a real consumer; KoP does not escape, so one such group breaks the whole scrape."""
    with reachable(full) as bootstrap:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe([topic.name])
        messages: list[Message] = []
        try:
            while len(messages) < 6:
                messages += consumer.consume(6, timeout=30)
                assert all(message.error() is None for message in messages)
            eventually(
                lambda: groups(full, topic.name) == {group_label(group): 6},
                f"all of it is the group's: {groups(full, topic.name)}",
            )
            labels = {sample.labels["group"] for sample in samples(full, "kop_server_MESSAGE_OUT", topic.name)}
            assert labels == {group_label(group)}
            families = list(parse_openmetrics(full.http("/metrics", Accept=OPENMETRICS)[1]))
            members = {
                sample.labels["group"] for f in families if f.name == "muster_group_members" for sample in f.samples
            }
            assert group_label(group) in members, "the coordinator's series have the same label"
        finally:
            consumer.close()


def test_long_groups_that_begin_alike_have_labels_of_their_own(full: Serving, topic: Topic) -> None:
    names = ["g" * 1_000 + end for end in ("a", "b")]
    for name in names:
        member_that_read(full, name, topic)
    counted = groups(full, topic.name)
    assert counted.keys() == {group_label(name) for name in names}
    assert all(len(name) < MAX_GROUP_CHARS + 20 for name in counted)


def test_kops_names_are_exact(full: Serving, fresh: Fresh, topic: Topic) -> None:
    group = fresh("g")
    member_that_read(full, group, topic)
    with full.connect("nobody") as nobody:
        read(nobody, topic)
    settle(full, now_ms() + FAR_MS)
    size_bytes = sum(sample.value for sample in samples(full, "muster_group_fetch_bytes_total", topic.name))
    for name, value in (("BYTES_OUT", size_bytes), ("MESSAGE_OUT", 6), ("ENTRIES_OUT", 3)):
        found = samples(full, f"kop_server_{name}", topic.name)
        labels = {"cluster": CLUSTER_ID, "partition": "0", "topic": topic.name}
        expected = [({**labels, "group": ""}, value), ({**labels, "group": group}, value)]
        assert sorted(((s.labels, s.value) for s in found), key=lambda item: item[0]["group"]) == expected
    text = full.http("/metrics")[1]
    place = f'cluster="{CLUSTER_ID}",group="{group}",partition="0",topic="{topic.name}"'
    assert f"\nkop_server_ENTRIES_OUT{{{place}}} 3\n" in text
    assert "kop_server_ENTRIES_OUT_total" not in text


def test_kops_counters_never_take_back_what_waited(full: Serving, fresh: Fresh, topic: Topic) -> None:
    """Pending bytes are not first counted under group=""."""
    group = fresh("g")
    find(full.client, 4, group)
    with full.connect("early") as client:
        read(client, topic)
        assert not samples(full, "kop_server_BYTES_OUT", topic.name)
        join(client, group, topic.name, [0])
        eventually(lambda: groups(full, topic.name) == {group: 6}, "the evidence came")
    assert [s.labels["group"] for s in samples(full, "kop_server_BYTES_OUT", topic.name)] == [group]


def test_series_of_a_deleted_group_go_and_begin_anew(full: Serving, fresh: Fresh, topic: Topic) -> None:
    """F25."""
    group = fresh("g")
    member = member_that_read(full, group, topic)

    def created() -> float:
        (family,) = (
            family
            for family in parse_openmetrics(full.http("/metrics", Accept=OPENMETRICS)[1])
            if family.name == "muster_group_fetch_bytes"
        )
        (begin,) = (s.value for s in family.samples if s.name.endswith("_created") and s.labels["group"] == group)
        return float(begin)

    began = created()
    size_bytes = samples(full, "muster_fetch_bytes_total", topic.name)[0].value
    member.leave()
    member.client.close()
    assert delete(full.client, group) == [(group, ErrorCode.none)]
    table = full.gateway.account.table
    eventually(lambda: group not in {held.group for held in list(table)}, "the coordinator has withdrawn it")
    settle(full, now_ms() + RETENTION_MS // 2)
    assert groups(full, topic.name) == {group: 6}, "not before its time"
    settle(full, now_ms() + 3 * RETENTION_MS)
    assert groups(full, topic.name) == {}
    assert not samples(full, "kop_server_BYTES_OUT", topic.name)
    assert [s.value for s in samples(full, "muster_removed_group_fetch_bytes", topic.name)] == [size_bytes]
    member_that_read(full, group, topic)
    assert groups(full, topic.name) == {group: 6}
    assert created() > began


def test_a_client_id_of_two_groups_is_logged(
    full: Serving, fresh: Fresh, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: both with the default id of their library."""

    def keys(at_ms: int) -> int:
        settle(full, at_ms)
        [found] = re.findall(r'\nmuster_ambiguous_clients\{gateway="1"\} (\d+)', full.http("/metrics")[1])
        return int(found)

    name, later_ms = fresh("library"), now_ms() + 4 * RETENTION_MS
    before = keys(later_ms)  # clients of other tests that are still connected
    members = [join(full.connect(name), fresh("g"), topic.name, [0]) for _ in range(2)]
    assert keys(later_ms) == before + 1
    logged = [record.getMessage() for record in caplog.records if name in record.getMessage()]
    assert len(logged) == 1
    assert "not unique on host 127.0.0.1" in logged[0]
    assert all(member.group in logged[0] for member in members)


def test_groups_beyond_the_bound_share_the_overflow(
    zk: ZooKeeperClient, tmp_path: Path, fresh: Fresh, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {**PROPERTIES, "metrics.max.group.series": "2"}
    with serving(zk, tmp_path, properties, with_actors=True) as full:
        topic = full.create("t")
        produce(full.client, (topic, 0, client_batch(6)))
        names = [fresh("g") for _ in range(4)]
        members = [member_that_read(full, name, topic) for name in names]
        assert groups(full, "t") == dict.fromkeys(names[:2], 6)
        (overflow,) = samples(full, "muster_unattributed_fetch_messages_total", "t")
        assert (overflow.labels["reason"], overflow.value) == ("overflow", 12)
        assert '\nmuster_folded_group_series{gateway="1"} 2\n' in full.http("/metrics")[1]
        assert {s.labels["group"]: s.value for s in samples(full, "kop_server_MESSAGE_OUT", "t")} == {
            "": 12,
            names[0]: 6,
            names[1]: 6,
        }
        settle(full, now_ms())
        assert "metrics.max.group.series" in caplog.text
        for member in members:
            member.client.close()
