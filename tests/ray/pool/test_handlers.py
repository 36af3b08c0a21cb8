"""Handlers that fail, take long, or are classes; and stops in the middle of them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer

from muster.gateway.client.errors import UnknownTopic
from muster.pool import InvalidConsumer, PoolFailed, PoolState, Sizing
from tests.muster_process import eventually
from tests.ray.pool.kit import PARTITIONS, Kit, kill, pid_of, registered, supervisor, until_workers, workers, writing

pytestmark = pytest.mark.ring(name="ray")

COUNT = 200


class Odd(Exception):
    """An error that cannot be pickled, and whose message cannot be shown."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __str__(self) -> str:
        raise RuntimeError("no message")


def headers(message: Any) -> list[tuple[str, bytes | None]]:
    return list(message.headers())


def refusing(out: Path, values: set[bytes]) -> Any:
    """Return a handler that fails if its table has one of these values."""
    write = writing(out)

    def handle(table: pa.Table) -> None:
        for value in table["value"].to_pylist():
            if value in values:
                raise Odd(table) if value == b"7" else ValueError(f"bad {value.decode()}")
        write(table)

    return handle


def test_what_still_fails_becomes_a_dead_letter(kit: Kit) -> None:
    dead_letters = kit.new_topic(1)
    kit.produce(COUNT, headers=[("trace", b"t"), ("trace", None)])
    kit.start(refusing(kit.out, {b"7", b"42"}), low=1, dead_letters=dead_letters, attempts=2)
    kit.until_committed(COUNT)
    assert len(set(kit.handled())) == COUNT - 2

    consumer = Consumer(
        {"bootstrap.servers": kit.cluster.bootstrap, "group.id": kit.fresh("pool"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([dead_letters])
    letters = consumer.consume(2, 30)
    consumer.close()
    assert sorted(each.value() or b"" for each in letters) == [b"42", b"7"]
    letter = next(each for each in letters if each.value() == b"42")
    assert letter.key() == b"42"
    *own, error, topic, partition, offset, timestamp, group, attempts = headers(letter)
    assert own == [("trace", b"t"), ("trace", None)]
    assert error == ("dead_letter.error", b"ValueError: bad 42")
    assert topic == ("dead_letter.topic", kit.topic.encode())
    assert partition == ("dead_letter.partition", b"2")
    assert offset == ("dead_letter.offset", b"10")
    assert timestamp[0] == "dead_letter.timestamp"
    assert abs(int(timestamp[1] or 0) / 1000 - time.time()) < 600
    assert group == ("dead_letter.group", kit.group.encode())
    assert attempts == ("dead_letter.attempts", b"3")
    odd = next(dict(headers(each)) for each in letters if each.value() == b"7")
    assert odd["dead_letter.error"] == b"Odd: (its message cannot be shown)"


def test_without_dead_letters_the_pool_fails(kit: Kit) -> None:
    kit.produce(COUNT)
    pool = kit.start(refusing(kit.out, {b"42"}), low=2, high=2, attempts=2)
    place = rf"{kit.topic}-2@10 cannot be handled: ValueError: bad 42"
    with pytest.raises(PoolFailed, match=place):
        pool.wait()
    assert pool.status().state is PoolState.FAILED
    eventually(lambda: pool.size, lambda size: size == 0, "the other worker has stopped")
    eventually(kit.members, lambda found: not found, "all have left")
    assert kit.committed()[2] <= 10, "what failed is not committed"

    kill(pid_of(supervisor(pool)))
    with pytest.raises(PoolFailed, match=place):
        pool.wait()
    assert pool.size == 0
    kit.start(writing(kit.out), low=1)
    kit.until_handled(COUNT)
    kit.until_committed(COUNT)


def test_a_topic_of_dead_letters_that_refuses_one_fails_the_pool(kit: Kit) -> None:
    dead_letters = kit.new_topic(1)
    producer = Producer({"bootstrap.servers": kit.cluster.bootstrap, "message.max.bytes": 2 << 20})
    producer.produce(kit.topic, b"x" * 1_048_400)
    assert not producer.flush(30)

    def handle(table: pa.Table) -> None:
        raise ValueError("never")

    pool = kit.start(handle, low=1, attempts=1, dead_letters=dead_letters)
    with pytest.raises(PoolFailed, match=rf"{kit.topic}-\d@0 cannot be stored in {dead_letters}.*MSG_SIZE_TOO_LARGE"):
        pool.wait()


def test_a_handler_that_cannot_be_made_fails_the_pool(kit: Kit) -> None:
    class Handler:
        def __init__(self) -> None:
            raise OSError("no model")

        def __call__(self, table: pa.Table) -> None: ...

    pool = kit.start(Handler, low=1)
    with pytest.raises(PoolFailed, match="cannot be made: OSError: no model"):
        pool.wait()


def test_an_instance_of_a_class_is_made_once_in_each_worker(kit: Kit) -> None:
    out, made = kit.out, kit.directory / "made"
    write = writing(out)

    class Handler:
        def __init__(self) -> None:
            self.thread = threading.get_ident()
            with made.open("a") as file:
                file.write(f"{os.getpid()}\n")

        def __call__(self, table: pa.Table) -> None:
            assert threading.get_ident() == self.thread
            assert table.schema.names == [
                *("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
            ]
            write(table)

    kit.produce(COUNT)
    pool = kit.start(Handler, low=2, high=2, attempts=1)
    kit.until_handled(COUNT)
    pids = until_workers(pool, 2)
    assert sorted(made.read_text().split()) == sorted(map(str, pids.values()))


def test_a_batch_may_take_longer_than_the_poll_interval(kit: Kit) -> None:
    kit.produce(PARTITIONS)
    settings = {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}
    pool = kit.start(writing(kit.out, each_s=2.5), low=1, high=1, consumer_config=settings)
    until_workers(pool, 1)
    kit.until_owned(by=1)
    owned = kit.owned()
    kit.produce(2 * PARTITIONS, PARTITIONS)
    kit.until_handled(3 * PARTITIONS)
    kit.until_committed(3 * PARTITIONS)
    assert len(kit.handled()) == 3 * PARTITIONS, "none is handled twice"
    assert kit.owned() == owned, "it is the same member"
    assert pool.status().workers[0].last_error == ""


def test_partitions_are_given_away_after_their_batch(kit: Kit) -> None:
    kit.produce(PARTITIONS)
    pool = kit.start(writing(kit.out, each_s=2.5), low=1, high=1)
    until_workers(pool, 1)
    eventually(lambda: pool.status().workers[0].handles_for_s, lambda age: age is not None, "they are handled")
    with kit.start(writing(kit.out), name=f"{kit.group}-2", low=1, high=1) as other:
        kit.until_owned(by=2)
        kit.until_committed(PARTITIONS)
        kit.produce(2 * PARTITIONS, PARTITIONS)
        kit.until_handled(3 * PARTITIONS)
        kit.until_committed(3 * PARTITIONS)
        assert set(kit.by_pid()) == {*workers(pool).values(), *workers(other).values()}
    assert len(kit.handled()) == 3 * PARTITIONS, "none is handled twice"


def test_a_stop_finishes_the_batch_and_commits_it(kit: Kit) -> None:
    kit.produce(COUNT)
    pool = kit.start(writing(kit.out, each_s=0.05), low=2, high=2, max_records=40)
    eventually(lambda: [each.handles_for_s for each in pool.status().workers], lambda ages: ages and all(ages), "both")
    pool.stop()
    handled = kit.handled()
    assert handled
    counts = {index: sum(partition == index for _, partition, _ in handled) for index in range(PARTITIONS)}
    committed = kit.committed()
    assert {index: max(offset, 0) for index, offset in committed.items()} == counts
    assert not kit.members()


def test_a_stop_kills_workers_after_its_time(kit: Kit) -> None:
    kit.produce(COUNT)

    def handle(table: pa.Table) -> None:
        threading.Event().wait()

    pool = kit.start(handle, low=1)
    eventually(lambda: pool.status().workers, lambda found: found and found[0].handles_for_s, "it is handled")
    pool.stop(timeout_s=1)
    assert not registered(pool)
    assert not kit.members(), "its member is evicted"
    assert set(kit.committed().values()) == {0}, "where they begin is committed"


def test_transaction_markers_are_no_lag(kit: Kit) -> None:
    producer = Producer({"bootstrap.servers": kit.cluster.bootstrap, "transactional.id": kit.group})
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(kit.topic, b"value", partition=index)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    pool = kit.start(writing(kit.out), sizing=Sizing(0, 2, 2, 2, idle_s=3, down_s=3))
    kit.until_handled(PARTITIONS)
    eventually(lambda: pool.status().lag, lambda lag: lag == 0, "there is no lag")
    assert kit.committed() == dict.fromkeys(range(PARTITIONS), 4)
    eventually(lambda: pool.size, lambda size: size == 0, "no worker is left")


def test_members_of_the_consumer_protocol_are_evicted_as_well(kit: Kit) -> None:
    kit.produce(COUNT)
    pool = kit.start(writing(kit.out), low=2, high=2, consumer_config={"group.protocol": "consumer"})
    before = until_workers(pool, 2)
    kit.until_owned(by=2)
    dead = next(each for each in kit.members() if each.client_id.endswith("-0"))
    kill(before[0])
    kit.until_owned(without=dead.member_id, timeout_s=30)
    kit.until_handled(COUNT)
    kit.until_committed(COUNT)
    assert pool.status().evicted == 1
    assert until_workers(pool, 2)[1] == before[1]


def test_what_cannot_be_started_is_refused(kit: Kit) -> None:
    async def handle(table: pa.Table) -> None: ...

    with pytest.raises(InvalidConsumer, match="async"):
        kit.start(handle)
    lock = threading.Lock()
    with pytest.raises(InvalidConsumer, match="pickled"):
        kit.start(lambda table: lock)
    with pytest.raises(InvalidConsumer, match="max_restarts"):
        kit.start(print, ray_actor_options={"max_restarts": 3})
    with pytest.raises(InvalidConsumer, match="a static member"):
        kit.start(print, consumer_config={"group.instance.id": "1"})
    with pytest.raises(InvalidConsumer, match="num_cpu"):
        kit.start(print, ray_actor_options={"num_cpu": 3})
    with pytest.raises(InvalidConsumer, match="can be called"):
        kit.start(Odd)
    large = b"x" * (9 << 20)
    with pytest.raises(InvalidConsumer, match="9 MiB"):
        kit.start(lambda table: large)
    with pytest.raises(UnknownTopic, match="no topic nowhere"):
        kit.start(print, "nowhere")
    assert not workers(kit.start(print))
