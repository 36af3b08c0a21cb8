"""``muster.data`` and ``Cluster``, which do the same on a Kafka as on Muster. The Ray is that of Muster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from muster import connect
from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import Fenced, GroupHasMembers, RecordTooLarge, TopicDiffers, UnknownGroup
from tests.data.copying import copy
from tests.data.driver import Driver, DriverKilled, environment
from tests.data.members import join, leave
from tests.data.topics import consume, produce, produce_in_transaction
from tests.muster_process import Muster

PARTITIONS, COUNT = 2, 2_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("driver") / "log"


@pytest.fixture(scope="module")
def driver(muster: Muster, log: Path) -> Iterator[Driver]:
    with Driver(environment(muster), log) as running:
        yield running


@pytest.fixture
def kafka(bootstrap: str) -> Cluster:
    return Cluster(bootstrap)


def values_of(bootstrap: str, target: str) -> list[int]:
    return sorted(value for values in consume(bootstrap, target, PARTITIONS + 1) for value in values)


def copy_once(kafka: Cluster, source: str, target: str, group: str) -> int:
    """Copy one batch of what is there; return its number of records."""
    import muster.data

    with muster.data.batch(source, group=group, cluster=kafka, wait_s=30) as batch:
        return batch.write(batch.dataset, target)


@pytest.mark.parametrize("step", [None, "begun", "sent", "committed"])
def test_every_record_once_whenever_the_driver_is_killed(
    muster: Muster, log: Path, kafka: Cluster, fresh: Callable[[str], str], step: str | None
) -> None:
    source = kafka.topic(fresh("in"), partitions=PARTITIONS)
    target, group = kafka.topic(fresh("out"), partitions=PARTITIONS + 1), fresh("copy")
    produce(kafka.bootstrap, source, range(COUNT), PARTITIONS)
    if step is not None:
        with Driver(environment(muster), log) as first, pytest.raises(DriverKilled):
            first.run(copy, kafka, source, target, group, None, step)
    with Driver(environment(muster), log) as second:
        assert second.run(copy, kafka, source, target, group) == [*range(2 if step == "committed" else 1, 5)]
    assert values_of(kafka.bootstrap, target) == [*range(COUNT)]
    assert kafka.lag(group).messages == 0


def test_an_older_driver_is_fenced(driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    source = kafka.topic(fresh("in"), partitions=PARTITIONS)
    target, group = kafka.topic(fresh("out"), partitions=PARTITIONS + 1), fresh("copy")
    produce(kafka.bootstrap, source, range(10), PARTITIONS)

    def two() -> None:
        import muster.data

        with muster.data.batch(source, group=group, cluster=kafka) as older:
            older.write(older.dataset, target)
            copy_once(kafka, source, target, group)

    with pytest.raises(Fenced):
        driver.run(two)
    assert values_of(kafka.bootstrap, target) == [*range(10)]


def test_aborted_records_and_markers(driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    topic = kafka.topic(fresh("markers"))
    produce_in_transaction(kafka.bootstrap, topic, range(5), commit=True)
    produce_in_transaction(kafka.bootstrap, topic, range(5, 9), commit=False)

    def values() -> list[int]:
        import muster.data

        rows = muster.data.read(topic, group="readers", cluster=kafka).take_all()
        return sorted(int(row["value"]) for row in rows)

    assert driver.run(values) == [*range(5)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members(driver: Driver, kafka: Cluster, fresh: Callable[[str], str], protocol: str) -> None:
    topic, group = kafka.topic(fresh("in")), fresh("members")
    join(kafka.bootstrap, group, topic, protocol)
    try:
        with pytest.raises(GroupHasMembers, match=r"has members \(somebody\)"):
            driver.run(copy_once, kafka, topic, topic, group)
    finally:
        leave()


def test_a_record_that_is_too_large(driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    topic = kafka.topic(fresh("small"), config={"max.message.bytes": "2000"})

    def write(size_bytes: int, count: int) -> Any:
        import ray

        import muster.data

        dataset = ray.data.from_items([{"key": "k", "value": b"v" * size_bytes}] * count)
        return muster.data.write(dataset, topic, cluster=kafka)

    assert driver.run(write, 500, 20) == 20
    with pytest.raises(RecordTooLarge):
        driver.run(write, 5000, 1)


def test_topics_and_lag(kafka: Cluster, fresh: Callable[[str], str]) -> None:
    topic = kafka.topic(fresh("topic"), partitions=3, config={"retention.ms": "100000"})
    assert kafka.topic(topic, partitions=3, config={"retention.ms": "100000"}) == topic
    with pytest.raises(TopicDiffers, match="3 partitions, not 4"):
        kafka.topic(topic, partitions=4)
    with pytest.raises(TopicDiffers, match=r"retention\.ms=100000, not 5"):
        kafka.topic(topic, partitions=3, config={"retention.ms": "5"})
    with pytest.raises(UnknownGroup):
        kafka.lag(fresh("unknown"))


def test_lag_and_clients_of_a_cluster_that_was_found(bootstrap: str, fresh: Callable[[str], str]) -> None:
    kafka = connect(bootstrap)
    topic, group = kafka.topic(fresh("topic"), partitions=PARTITIONS), fresh("behind")
    produce(kafka.bootstrap, topic, range(10), PARTITIONS)
    consumer = Consumer(kafka.client(group_id=group))
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1] for index in range(PARTITIONS)]
    consumer.commit(offsets=[TopicPartition(topic, 0, ends[0] - 1), TopicPartition(topic, 1, 0)], asynchronous=False)
    consumer.close()
    assert sum(ends) == 10
    found = kafka.lag(group)
    assert (found.messages, found.seconds, found.behind) == (1 + ends[1], None, PARTITIONS)
    assert [(each.partition, each.committed, each.end) for each in found.partitions] == [
        (0, ends[0] - 1, ends[0]),
        (1, 0, ends[1]),
    ]
