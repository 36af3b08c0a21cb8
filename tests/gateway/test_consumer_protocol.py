"""librdkafka's consumers with ``group.protocol=consumer`` (KIP-848), against a gateway and its actors without Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.serving import Serving, serving

PARTITIONS = 4
PROPERTIES = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def served(zk: ZooKeeperClient, tmp_path: Path) -> Iterator[Serving]:
    with serving(zk, tmp_path, PROPERTIES, with_actors=True) as running:
        running.reachable()
        yield running


def _create(served: Serving, *topics: str) -> None:
    for topic in topics:
        served.create(topic, PARTITIONS)


class Member:
    """A consumer that a test polls."""

    def __init__(self, served: Serving, group: str, topics: list[str], **config: str) -> None:
        settings = {
            "bootstrap.servers": f"127.0.0.1:{served.port}",
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.values: list[bytes] = []
        self.consumer = Consumer(settings)
        self.consumer.subscribe(topics)

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None and message.error() is None:
            self.values.append(message.value() or b"")

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}


@pytest.fixture
def member(served: Serving) -> Iterator[Callable[..., Member]]:
    with ExitStack() as stack:

        def start(group: str, *topics: str, **config: str) -> Member:
            found = Member(served, group, [*topics], **config)
            stack.callback(found.consumer.close)
            return found

        yield start


def _until(condition: Callable[[], bool], *members: Member, timeout_s: float = 20) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, [each.partitions for each in members]
        for each in members:
            each.poll()


def _share(topic: str, *members: Member) -> None:
    """Wait until they have all partitions, equally many each."""

    def settled() -> bool:
        held = [each.partitions for each in members]
        fair = {len(each) for each in held} == {PARTITIONS // len(members)}
        return fair and set().union(*held) == {(topic, index) for index in range(PARTITIONS)}

    _until(settled, *members)


def test_consumers_share_and_take_over(served: Serving, member: Callable[..., Member]) -> None:
    _create(served, "shared")
    first = member("sharing", "shared")
    _share("shared", first)
    second = member("sharing", "shared")
    _share("shared", first, second)
    second.consumer.close()
    _share("shared", first)


def test_every_record_is_read_once_and_committed(served: Serving, member: Callable[..., Member]) -> None:
    _create(served, "read")
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{served.port}"})
    for number in range(40):
        producer.produce("read", str(number), partition=number % PARTITIONS)
    producer.flush()
    members = [member("reading", "read"), member("reading", "read")]
    _until(lambda: len([*members[0].values, *members[1].values]) == 40, *members)
    assert sorted(map(int, [*members[0].values, *members[1].values])) == [*range(40)]
    _share("read", *members)
    for each in members:
        each.consumer.commit(asynchronous=False)
    committed = members[0].consumer.committed([TopicPartition("read", index) for index in range(PARTITIONS)])
    assert sum(each.offset for each in committed) == 40


def test_a_static_member_returns_to_its_partitions(served: Serving, member: Callable[..., Member]) -> None:
    _create(served, "static")
    first = member("static", "static", group_instance_id="i")
    second = member("static", "static")
    _share("static", first, second)
    before = first.partitions
    first.consumer.close()
    again = member("static", "static", group_instance_id="i")
    _share("static", again, second)
    assert again.partitions == before


def test_a_regular_expression_finds_topics_that_come_later(served: Serving, member: Callable[..., Member]) -> None:
    _create(served, "regex-1")
    found = member("matching", "^regex-.*")
    _until(lambda: found.partitions == {("regex-1", index) for index in range(PARTITIONS)}, found)


def test_classic_and_consumer_members_in_one_group(served: Serving, member: Callable[..., Member]) -> None:
    _create(served, "mixed")
    classic = {"group_protocol": "classic", "session_timeout_ms": "6000", "heartbeat_interval_ms": "200"}
    old = member("mixing", "mixed", **classic, partition_assignment_strategy="cooperative-sticky")
    _share("mixed", old)
    new = member("mixing", "mixed")
    _share("mixed", old, new)
    assert _type_of(served, "mixing") is ConsumerGroupType.CONSUMER
    new.consumer.close()
    _share("mixed", old)
    assert _type_of(served, "mixing") is ConsumerGroupType.CLASSIC


def _type_of(served: Serving, group: str) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{served.port}"})
    listed = admin.list_consumer_groups().result().valid
    found: ConsumerGroupType = next(each.type for each in listed if each.group_id == group)
    return found


def test_admin_clients_describe_the_group(served: Serving, member: Callable[..., Member]) -> None:
    _create(served, "described")
    only = member("describing", "described")
    _share("described", only)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{served.port}"})
    found = admin.describe_consumer_groups(["describing"])["describing"].result()
    assert (found.state, found.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    assert found.partition_assignor == "uniform"
    (described,) = found.members
    assert {(each.topic, each.partition) for each in described.assignment.topic_partitions} == only.partitions


def test_a_registration_for_every_member(served: Serving, member: Callable[..., Member]) -> None:
    _create(served, "registered")
    only = member("registering", "registered", client_id="the client")
    _share("registered", only)
    assert served.actors is not None
    said = served.actors.changes.of_group("registering")[-1]
    assert (said.client_id, said.partitions) == ("the client", only.partitions)
