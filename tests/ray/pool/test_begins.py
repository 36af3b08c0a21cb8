"""Where a group begins is committed before its first record."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.muster_process import eventually
from tests.ray.pool.kit import WAIT_S, Kit, until_workers, writing

pytestmark = pytest.mark.ring(name="ray")

MANY = 60
FETCH_S = 0.5
"""``fetch.wait.max.ms``: the time of a Fetch that finds nothing."""


def test_the_begins_of_empty_partitions_do_not_wait_for_one_fetch_each(kit: Kit) -> None:
    """Over the connection of the consumer they would, and with them the first records."""
    topic = kit.new_topic(MANY)
    pool = kit.start(writing(kit.out), topic, low=1, high=1)
    until_workers(pool, 1)
    eventually(lambda: len(kit.owned()), lambda found: found == MANY, "the worker has all partitions", WAIT_S)
    began_s = time.monotonic()
    partitions = [TopicPartition(topic, index) for index in range(MANY)]
    consumer = Consumer({"bootstrap.servers": kit.cluster.bootstrap, "group.id": kit.group})
    try:
        eventually(
            lambda: {each.offset for each in consumer.committed(partitions, 10)},
            lambda found: found == {0},
            "the begins are committed",
            MANY * FETCH_S / 2,
        )
    finally:
        consumer.close()
    print(f"the begins of {MANY} partitions are committed after {time.monotonic() - began_s:.1f} s")
