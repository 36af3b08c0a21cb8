"""``muster.data.read`` in a Ray driver: what is in the Dataset, and whose bytes it counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import OffsetOutOfRange, UnknownTopic
from tests.data.driver import Driver
from tests.data.topics import delete_records, fetched_bytes, make_again, produce, produce_in_transaction
from tests.muster_process import Muster

pytestmark = pytest.mark.ring(name="ray")

PARTITIONS = 3


def values(kafka: Cluster, topic: str | list[str], group: str, **options: Any) -> list[int]:
    """Return the values of a read, in order. Runs in the driver."""
    import muster.data

    rows = muster.data.read(topic, group=group, cluster=kafka, **options).take_all()
    return sorted(int(row["value"]) for row in rows)


def test_all_records_and_their_columns(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    topic, group = muster.topic(fresh("read"), partitions=PARTITIONS), fresh("readers")
    produce(muster.bootstrap, topic, range(1000), PARTITIONS)

    def rows() -> list[dict[str, Any]]:
        import muster.data

        dataset = muster.data.read(topic, group=group, cluster=kafka, rows_per_task=100)
        assert dataset.count() == 1000
        found: list[dict[str, Any]] = dataset.filter(lambda row: row["value"] == b"7").take_all()
        return found

    (row,) = driver.run(rows)
    assert row | {"timestamp": 0} == {
        "topic": topic,
        "partition": 1,
        "offset": 2,
        "timestamp": 0,
        "timestamp_type": 1,
        "key": b"7",
        "value": b"7",
        "headers": [],
    }
    assert abs(row["timestamp"] - time.time() * 1000) < 600_000


def test_columns_that_are_wanted(muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    topic = muster.topic(fresh("columns"))
    produce(muster.bootstrap, topic, range(3), 1)

    def rows() -> Any:
        import muster.data

        return muster.data.read(topic, group="g", cluster=kafka, columns=["value", "offset"]).take_all()

    assert driver.run(rows) == [{"value": str(each).encode(), "offset": each} for each in range(3)]


def test_an_end_that_is_a_marker(muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    """Ray's ``read_kafka`` waits for it."""
    topic = muster.topic(fresh("marker"))
    produce_in_transaction(muster.bootstrap, topic, range(5), commit=True)
    assert driver.run(values, kafka, topic, fresh("g")) == [*range(5)]


def test_aborted_records_are_left_out(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    topic = muster.topic(fresh("aborted"))
    produce_in_transaction(muster.bootstrap, topic, range(5), commit=False)
    produce_in_transaction(muster.bootstrap, topic, range(5, 9), commit=True)
    produce_in_transaction(muster.bootstrap, topic, range(9, 12), commit=False)
    assert driver.run(values, kafka, topic, fresh("g")) == [*range(5, 9)]


def test_topics_without_records(muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    empty, only_aborted = muster.topic(fresh("empty"), partitions=2), muster.topic(fresh("nothing"))
    produce_in_transaction(muster.bootstrap, only_aborted, range(5), commit=False)
    assert driver.run(values, kafka, [empty, only_aborted], fresh("g")) == []


def test_the_range_is_fixed_when_it_is_called(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    topic, bootstrap = muster.topic(fresh("fixed")), muster.bootstrap
    produce(bootstrap, topic, range(10), 1)

    def counts() -> list[int]:
        import muster.data

        dataset = muster.data.read(topic, group="g", cluster=kafka)
        produce(bootstrap, topic, range(10, 20), 1)
        return [dataset.count(), muster.data.read(topic, group="g", cluster=kafka).count(), dataset.count()]

    assert driver.run(counts) == [10, 20, 10]


def test_where_it_begins_and_ends(muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    topic, group = muster.topic(fresh("range")), fresh("g")
    produce(muster.bootstrap, topic, range(10), 1)
    time.sleep(0.01)  # the records of either side have other timestamps
    between = datetime.now(UTC)
    time.sleep(0.01)
    produce(muster.bootstrap, topic, range(10, 20), 1)
    committed = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    admin.alter_consumer_group_offsets([committed])[group].result(60)

    def found(**options: Any) -> Any:
        return driver.run(lambda: values(kafka, topic, group, **options))

    assert found() == [*range(4, 20)]
    assert found(start="earliest") == [*range(20)]
    assert found(start=between) == [*range(10, 20)]
    assert found(start="earliest", end=between) == [*range(10)]
    assert found(start={(topic, 0): 7}, end={(topic, 0): 9}) == [7, 8]
    assert found(start=datetime(2100, 1, 1, tzinfo=UTC)) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": "latest"}, "start='latest' is none of"),
        ({"end": "committed"}, "end='committed' is none of"),
        ({"start": datetime(2026, 1, 1)}, "no time zone"),
        ({"start": {("other", 0): 1}}, r"\('other', 0\) is no"),
        ({"columns": ["valeu"]}, "column 'valeu' is none of topic, partition"),
    ],
)
def test_bad_arguments(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str], options: dict[str, Any], said: str
) -> None:
    topic = muster.topic(fresh("bad"))
    with pytest.raises(ValueError, match=said):
        driver.run(lambda: values(kafka, topic, "g", **options))


def test_an_unknown_topic(driver: Driver, kafka: Cluster) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic no-such-topic; create it"):
        driver.run(values, kafka, "no-such-topic", "g")


def test_records_that_were_deleted_meanwhile(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    topic, bootstrap = muster.topic(fresh("deleted")), muster.bootstrap
    produce(bootstrap, topic, range(10), 1)

    def read() -> None:
        from ray.exceptions import RayTaskError

        import muster.data

        dataset = muster.data.read(topic, group="g", cluster=kafka)
        delete_records(bootstrap, topic, 5)
        try:
            dataset.count()
        except RayTaskError as error:
            raise error.cause from None

    with pytest.raises(OffsetOutOfRange, match=r"records 0 to 9 of .* its log begins at 5"):
        driver.run(read)


def test_every_byte_counts_under_the_group(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    topic, group = muster.topic(fresh("bytes"), partitions=PARTITIONS), fresh("readers")
    produce(muster.bootstrap, topic, range(3000), PARTITIONS)
    assert len(driver.run(values, kafka, topic, group)) == 3000
    found = fetched_bytes(muster, topic)
    assert found.keys() == {f"{group} same_connection"}


def test_a_quota_slows_it_down_and_does_not_end_it(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    """A response that is throttled has no partitions."""
    topic, group = muster.topic(fresh("quota")), fresh("slow")
    produce(muster.bootstrap, topic, range(30_000), 1)
    muster.cli("quotas", "set", "--client-id", f"muster-data-{group}", "--consumer-rate", "25KiB/s")
    assert len(driver.run(values, kafka, topic, group)) == 30_000


def test_a_topic_that_was_made_again_with_less(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    topic, bootstrap = muster.topic(fresh("again")), muster.bootstrap
    produce(bootstrap, topic, range(10), 1)

    def read() -> None:
        from ray.exceptions import RayTaskError

        import muster.data

        dataset = muster.data.read(topic, group="g", cluster=kafka)
        make_again(bootstrap, topic, range(3))
        try:
            dataset.count()
        except RayTaskError as error:
            raise error.cause from None

    with pytest.raises(OffsetOutOfRange, match=r"was to be read to offset 9, but its log ends at 3: the topic was"):
        driver.run(read)


def test_processes_that_are_killed_while_it_reads(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    """Gateway, log actor and coordinator, as in any client: it goes on elsewhere, or there again."""
    topic, group = muster.topic(fresh("killed"), partitions=PARTITIONS), fresh("readers")
    count = 60_000
    produce(muster.bootstrap, topic, range(count), PARTITIONS)
    driver.begin(read_slowly, kafka, topic, group)
    for name in ("gateway-1", "log-0", "gateway-2"):
        muster.until_back(name, muster.kill_actor(name))
    assert driver.result() == count
    muster.until_all_serve()


def read_slowly(kafka: Cluster, topic: str, group: str) -> int:
    """Read again and again for as long as processes are killed, and return how many records there are each time."""
    import muster.data

    counts = {muster.data.read(topic, group=group, cluster=kafka, rows_per_task=1000).count() for _ in range(8)}
    (count,) = counts
    return int(count)
