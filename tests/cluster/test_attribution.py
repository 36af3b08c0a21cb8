"""Attribution: three libraries with their default client ids read one topic."""

from __future__ import annotations

import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from muster.placement.layout import CLIENT_GROUP_ID
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.cluster.consumer_groups.members import AiokafkaMember, ConfluentMember, KafkaPythonMember, Producer
from tests.muster_process import Muster, eventually

WAIT_S = 60
PARTITIONS, COUNT = 3, 900
Books = Counter[tuple[str, str, str, str]]
"""(gateway, topic, partition, group or reason) -> amount."""


@pytest.fixture
def zk(muster: Muster) -> Iterator[ZooKeeperClient]:
    client = muster.zookeeper()
    yield client
    client.shut()


def registered(zk: ZooKeeperClient, groups: set[str]) -> dict[str, str]:
    """Group -> the client id in ZooKeeper's registration of one of its members."""
    return {
        name.partition(":")[0]: client
        for host in zk.get_children(CLIENT_GROUP_ID)
        for client in zk.get_children(f"{CLIENT_GROUP_ID}/{host}")
        for name in zk.get_children(f"{CLIENT_GROUP_ID}/{host}/{client}")
        if name.partition(":")[0] in groups
    }


def scrape(muster: Muster) -> list[Sample]:
    samples = []
    for url in muster.ready["metrics"]:
        with urllib.request.urlopen(url, timeout=10) as response:
            for family in text_string_to_metric_families(response.read().decode()):
                samples.extend(family.samples)
    return samples


def book(samples: list[Sample], metric: str, label: str = "") -> Books:
    found: Books = Counter()
    for sample in samples:
        if sample.name == metric:
            labels = sample.labels
            found[labels["gateway"], labels["topic"], labels["partition"], labels.get(label, "")] += int(sample.value)
    return found


def by_place(amounts: Books) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for (gateway, topic, partition, _), amount in amounts.items():
        found[gateway, topic, partition] += amount
    return found


def in_parquet(muster: Muster, topic: str, unit: str) -> Books:
    """Return the samples' amounts, in the form of the counters; only rows with a final label are in the table."""
    table = ds.dataset(muster.storage / "metrics" / "samples", format="parquet").to_table()
    found: Books = Counter()
    for row in table.filter(pc.equal(table["topic"], topic)).to_pylist():
        found[str(row["gateway"]), topic, str(row["partition"]), row["group"] or row["reason"]] += row[unit]
    return found


def sent_again(muster: Muster, topic: str, group: str) -> int:
    """Messages sent more than once, by the offsets in the samples."""
    table = ds.dataset(muster.storage / "metrics" / "samples", format="parquet").to_table()
    rows = [row for row in table.to_pylist() if (row["topic"], row["group"]) == (topic, group)]
    offsets = {
        (row["partition"], offset) for row in rows for offset in range(row["first_offset"], row["last_offset"] + 1)
    }
    assert len(offsets) == COUNT, "every record was sent to the group"
    return int(sum(row["messages"] for row in rows)) - COUNT


def test_every_byte_is_counted_for_the_group_that_fetched_it(
    muster: Muster, fresh: Callable[[str], str], zk: ZooKeeperClient
) -> None:
    topic = fresh("counted")
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(WAIT_S)
    kinds = (ConfluentMember, KafkaPythonMember, AiokafkaMember)
    members = {group: kind(muster.bootstrap, topic, group) for kind in kinds for group in [fresh("counted-group")]}
    producer = Producer(muster.bootstrap, topic)
    for member in members.values():
        member.start()
    for _ in range(3):
        producer.send(COUNT // 3)
        producer.flush()
    for member in members.values():
        eventually(lambda of=member: sum(of.committed.values()), lambda n: n == COUNT, "all read", WAIT_S)

    clients = eventually(
        lambda: registered(zk, set(members)), lambda found: found.keys() == members.keys(), "all are registered"
    )
    assert len(set(clients.values())) == len(members), "each library has a client id of its own"
    assert "rdkafka" in clients.values()

    for unit in ("bytes", "messages"):
        samples = eventually(lambda: scrape(muster), lambda s, u=unit: not pending(s, topic, u), "nothing is pending")
        total = by_place(book(samples, f"muster_fetch_{unit}_total"))
        groups = book(samples, f"muster_group_fetch_{unit}_total", "group")
        others = book(samples, f"muster_unattributed_fetch_{unit}_total", "reason")
        waiting = book(samples, f"muster_pending_fetch_{unit}")
        assert by_place(groups) + by_place(others) + by_place(waiting) == +total
        ours = Counter({key: amount for key, amount in (groups + others).items() if key[1] == topic})
        assert {key[3] for key in ours} == set(members), "no other group, and no bytes without one"
        eventually(lambda u=unit, o=ours: in_parquet(muster, topic, u) - o, lambda left: not left, "no more in Parquet")
        eventually(lambda u=unit, o=ours: o - in_parquet(muster, topic, u), lambda left: not left, "all in Parquet")
    for group, member in members.items():
        assert sorted(member.values()) == sorted(producer.acknowledged)
        counted = sum(amount for key, amount in ours.items() if key[3] == group)
        assert counted == COUNT + sent_again(muster, topic, group)

    for group, member in members.items():
        member.leave()
        eventually(lambda of=group: registered(zk, {of}), lambda found: not found, "a member that left is gone")


def pending(samples: list[Sample], topic: str, unit: str) -> Books:
    """Return the amounts that have no group yet."""
    waiting = book(samples, f"muster_pending_fetch_{unit}")
    return Counter({key: amount for key, amount in waiting.items() if key[1] == topic and amount})
