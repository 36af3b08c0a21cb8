"""``muster.data.batch`` and ``batches``: each record once in the output, whoever dies when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import Fenced, GroupHasMembers, OutputTooLarge, RecordTooLarge, UnknownTopic
from tests.data.copying import STEPS, copy
from tests.data.driver import Driver, DriverKilled, environment
from tests.data.members import join, leave
from tests.data.topics import consume, fetched_bytes, produce
from tests.muster_process import Muster

pytestmark = pytest.mark.ring(name="ray")

PARTITIONS = 2
COUNT = 2_000


def copy_once(kafka: Cluster, source: str, target: str, group: str) -> int:
    """Copy one batch of what is there; return its number of records."""
    import muster.data

    with muster.data.batch(source, group=group, cluster=kafka, wait_s=30) as batch:
        return batch.write(batch.dataset, target)


@pytest.fixture
def source(muster: Muster, fresh: Callable[[str], str]) -> str:
    topic = muster.topic(fresh("in"), partitions=PARTITIONS)
    produce(muster.bootstrap, topic, range(COUNT), PARTITIONS)
    return topic


@pytest.fixture
def target(muster: Muster, fresh: Callable[[str], str]) -> str:
    return muster.topic(fresh("out"), partitions=PARTITIONS + 1)


def values_of(bootstrap: str, target: str) -> list[int]:
    return sorted(value for values in consume(bootstrap, target, PARTITIONS + 1) for value in values)


def in_files(files: Path) -> list[int]:
    return sorted(int(value) for value in ds.dataset(files, format="parquet").to_table()["value"].to_pylist())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_is_killed(
    muster: Muster, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str], tmp_path: Path, step: str
) -> None:
    group, files, log = fresh("copy"), tmp_path / "files", tmp_path / "log"
    with Driver(environment(muster), log) as first, pytest.raises(DriverKilled):
        first.run(copy, kafka, source, target, group, str(files), step)
    with Driver(environment(muster), log) as second:
        numbers = second.run(copy, kafka, source, target, group, str(files))
    assert numbers == [*range(2 if step == "committed" else 1, 5)]
    assert values_of(muster.bootstrap, target) == [*range(COUNT)]
    assert in_files(files) == [*range(COUNT)]
    assert fetched_bytes(muster, source).keys() == {f"{group} same_connection"}


def test_an_older_driver_is_fenced(
    muster: Muster, driver: Driver, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("copy")

    def two() -> int:
        import muster.data

        with muster.data.batch(source, group=group, cluster=kafka) as older:
            older.write(older.dataset, target)
            return copy_once(kafka, source, target, group)

    with pytest.raises(Fenced, match=f"another producer with transactional id muster-data-{group} has begun since"):
        driver.run(two)
    assert values_of(muster.bootstrap, target) == [*range(COUNT)]


def test_a_batch_that_fails_is_not_committed(
    muster: Muster, driver: Driver, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("copy")

    def fail_then_go_on() -> list[Any]:
        import muster.data

        found: list[Any] = []
        for fails in (True, False):
            try:
                with muster.data.batch(source, group=group, cluster=kafka, max_records=10) as batch:
                    batch.write(batch.dataset, target)
                    found.append((batch.id, batch.ranges))
                    if fails:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
        return found

    first, second = driver.run(fail_then_go_on)
    assert first == second
    assert len(values_of(muster.bootstrap, target)) == 10


def test_a_commit_that_failed_is_not_repeated(
    muster: Muster, driver: Driver, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str]
) -> None:
    """It may have succeeded: the response was lost."""
    group = fresh("copy")

    def lose_response() -> list[Any]:
        import muster.data
        from muster.gateway.client.errors import NoResponse
        from muster.gateway.client.kafka.transaction import TransactionalProducer

        producer: Any = TransactionalProducer
        end = producer._end
        found: list[Any] = []

        def lost(self: Any, *, is_committed: bool) -> None:
            end(self, is_committed=is_committed)
            if len(found) == 1:
                raise NoResponse("coordinator", "lost")

        producer._end = lost
        try:
            with muster.data.batch(source, group=group, cluster=kafka, max_records=10) as batch:
                found.append(batch.id)
                batch.write(batch.dataset, target)
                try:
                    batch.commit()
                except NoResponse:
                    found.append("lost")
            try:
                batch.commit()
            except ValueError as error:
                found.append(str(error))
        finally:
            producer._end = end
        with muster.data.batch(source, group=group, cluster=kafka, max_records=10) as batch:
            found.append(batch.id)
            batch.write(batch.dataset, target)
        return found

    assert driver.run(lose_response) == [
        1,
        "lost",
        "batch 1 may have been committed when its commit failed; ask for the next batch",
        2,
    ]
    assert len(values_of(muster.bootstrap, target)) == 20


def test_all_offsets_of_the_topics_are_committed_again(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    """Each expires by itself, in a group without members: also that of a partition without records."""
    source, group = muster.topic(fresh("in"), partitions=2), fresh("copy")
    produce(muster.bootstrap, source, range(4), 2)

    def metadata() -> list[str]:
        import muster.data
        from muster.gateway.client.kafka.offsets import committed

        with muster.data.batch(source, group=group, cluster=kafka):
            pass
        produce(kafka.bootstrap, source, [4], 2)
        with muster.data.batch(source, group=group, cluster=kafka), kafka.coordinator(group, "test") as coordinator:
            return [each.metadata for _, each in sorted(committed(coordinator, group).items())]

    assert driver.run(metadata) == ['{"muster.batch":2,"end":3}', '{"muster.batch":2}']


def test_a_group_with_members_is_refused(
    muster: Muster, driver: Driver, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("members")
    for protocol in ("classic", "consumer"):
        join(muster.bootstrap, group, source, protocol)
        try:
            with pytest.raises(GroupHasMembers, match=rf"group {group} has members \(somebody\); stop them"):
                driver.run(copy_once, kafka, source, target, group)
        finally:
            leave()


def test_a_member_that_joins_before_the_commit(
    muster: Muster, driver: Driver, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str]
) -> None:
    group, bootstrap = fresh("members"), muster.bootstrap

    def joined_in_the_middle() -> None:
        import muster.data

        with muster.data.batch(source, group=group, cluster=kafka) as batch:
            batch.write(batch.dataset, target)
            join(bootstrap, group, source)

    with pytest.raises(GroupHasMembers, match=r"has members \(somebody\); stop them"):
        driver.run(joined_in_the_middle)
    driver.run(leave)
    assert values_of(bootstrap, target) == []


def test_nothing_to_read(
    muster: Muster, driver: Driver, kafka: Cluster, target: str, fresh: Callable[[str], str]
) -> None:
    empty, group = muster.topic(fresh("empty")), fresh("copy")

    def empty_batch() -> list[Any]:
        import muster.data

        with muster.data.batch(empty, group=group, cluster=kafka, wait_s=0.5) as batch:
            return [batch.id, batch.ranges, batch.dataset.count(), batch.write(batch.dataset, target)]

    assert driver.run(empty_batch) == [1, (), 0, 0]


def test_output_that_is_too_large(
    driver: Driver, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("copy")

    def too_large() -> None:
        import muster.data

        with muster.data.batch(source, group=group, cluster=kafka, max_bytes=1000) as batch:
            batch.write(batch.dataset, target)

    with pytest.raises(OutputTooLarge, match=r"more than 1000 bytes.* max_records, or allow more with max_bytes"):
        driver.run(too_large)


def test_a_record_that_is_too_large(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    topic = muster.topic(fresh("small"), config={"max.message.bytes": "2000"})

    def write(size_bytes: int, count: int) -> int:
        import ray

        import muster.data

        dataset = ray.data.from_items([{"key": "k", "value": b"v" * size_bytes}] * count)
        return muster.data.write(dataset, topic, cluster=kafka)

    assert driver.run(write, 500, 20) == 20, "cut into batches that fit"
    with pytest.raises(RecordTooLarge, match=f"a record for {topic}-0 is larger than the topic takes"):
        driver.run(write, 5000, 1)


def test_what_a_write_takes(muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]) -> None:
    topic = muster.topic(fresh("columns"), partitions=3)

    def write() -> list[Any]:
        import ray

        import muster.data

        rows = [{"name": "a", "text": str(n), "where": n % 3, "more": {"h": b"1"}} for n in range(6)]
        dataset = ray.data.from_items(rows)
        columns: dict[str, Any] = {"key": "name", "value": "text", "partition": "where"}
        count = muster.data.write(dataset, topic, cluster=kafka, **columns)
        rows = muster.data.read(topic, group="g", cluster=kafka).sort("value").take_all()
        return [count, [(row["partition"], row["key"], row["value"]) for row in rows]]

    count, rows = driver.run(write)
    assert count == 6
    assert rows == [(n % 3, b"a", str(n).encode()) for n in range(6)]


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ({"value": "valeu"}, ValueError, "the dataset has no column 'valeu'; its columns are id, key"),
        ({"value": "id"}, TypeError, "int64"),
        ({"value": "key", "partition": "id"}, ValueError, "column 'id' must have partitions of .*, 0 to 0"),
    ],
)
def test_bad_columns(
    muster: Muster,
    driver: Driver,
    kafka: Cluster,
    fresh: Callable[[str], str],
    columns: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    topic = muster.topic(fresh("bad"))

    def write() -> None:
        import ray

        import muster.data

        dataset = ray.data.from_items([{"id": n, "key": "k"} for n in range(3)])
        muster.data.write(dataset, topic, cluster=kafka, **columns)

    with pytest.raises(error, match=said):
        driver.run(write)


def test_an_unknown_target(driver: Driver, kafka: Cluster, source: str, fresh: Callable[[str], str]) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic no-such-topic"):
        driver.run(copy_once, kafka, source, "no-such-topic", fresh("copy"))


def test_a_worker_that_is_killed(
    muster: Muster,
    driver: Driver,
    kafka: Cluster,
    source: str,
    target: str,
    fresh: Callable[[str], str],
    tmp_path: Path,
) -> None:
    poison = tmp_path / "poison"
    poison.touch()
    assert driver.run(copy, kafka, source, target, fresh("copy"), None, None, (), str(poison)) == [1, 2, 3, 4]
    assert not poison.exists()
    assert values_of(muster.bootstrap, target) == [*range(COUNT)]


@pytest.mark.timeout(600)
def test_coordinators_that_are_killed(
    muster: Muster, driver: Driver, kafka: Cluster, source: str, target: str, fresh: Callable[[str], str]
) -> None:
    """Kill that of the group, that of its transactions, and who has the logs, while batches are copied."""
    group = fresh("copy")
    driver.begin(copy, kafka, source, target, group)
    names = [name for name in muster.actors() if name.startswith(("offsets-", "transactions-", "log-"))]
    for name in names:
        muster.kill_actor(name)
    assert driver.result() == [1, 2, 3, 4]
    assert values_of(muster.bootstrap, target) == [*range(COUNT)]
    muster.until_all_serve()
