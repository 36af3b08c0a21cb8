"""Both programs, while the coordinator of their group dies in the middle of a commit."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pytest_muster import Cluster, FaultClient

ORDERS = [f"order-{number}" for number in range(5)]
WAIT_S = 60


@pytest.fixture
def topic(muster: Cluster) -> str:
    """Create a topic with five orders; the group that ships them has the same name."""
    name = muster.topic()
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    for order in ORDERS:
        producer.produce(name, order)
    assert producer.flush(WAIT_S) == 0
    return name


@contextmanager
def running(program: str, bootstrap: str, topic: str, book: Path) -> Iterator[None]:
    """Run the program, until it is killed."""
    process = subprocess.Popen([sys.executable, "-m", program, bootstrap, topic, topic, str(book)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def committed(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    (partition,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    consumer.close()
    return partition.offset


def shipped(book: Path) -> list[str]:
    return book.read_text().splitlines() if book.exists() else []


def ship_all(muster: Cluster, program: str, topic: str, book: Path, phase: str) -> list[str]:
    """Return the book in the end, if the coordinator dies during the first commit.

    The program waits for a response that never comes, until its supervisor kills and restarts it.
    """
    fault = muster.faults.inject("drop", api="OffsetCommit", group=topic, phase=phase, when="once")
    with running(program, muster.bootstrap, topic, book):
        until(lambda: any(each["id"] == fault and each["hits"] for each in muster.faults.faults()))
        if phase == "after":
            until(lambda: committed(muster.bootstrap, topic) == 1)
        muster.faults.kill(group=topic)
    with running(program, muster.bootstrap, topic, book):
        until(lambda: ORDERS[-1] in shipped(book))
    return shipped(book)


def test_an_order_is_lost_by_committing_first(
    muster: Cluster, muster_faults: FaultClient, topic: str, tmp_path: Path
) -> None:
    done = ship_all(muster, "examples.committing_first", topic, tmp_path / "book", "after")
    assert done == ORDERS[1:], "the first order was committed, and never shipped"


def test_no_order_is_lost_by_committing_after(
    muster: Cluster, muster_faults: FaultClient, topic: str, tmp_path: Path
) -> None:
    done = ship_all(muster, "examples.committing_after", topic, tmp_path / "book", "after")
    assert done == ORDERS


def test_an_order_whose_commit_is_lost_is_shipped_twice(
    muster: Cluster, muster_faults: FaultClient, topic: str, tmp_path: Path
) -> None:
    done = ship_all(muster, "examples.committing_after", topic, tmp_path / "book", "before")
    assert done == [ORDERS[0], *ORDERS]
