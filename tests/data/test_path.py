"""Copying a topic for a group: the way of every record through ``muster.data``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.gateway.client.cluster import Cluster
from tests.data.copying import copy
from tests.data.driver import Driver
from tests.data.topics import consume, fetched_bytes, produce
from tests.muster_process import Muster

pytestmark = pytest.mark.ring(name="ray")

PARTITIONS, COUNT = 2, 2_000


def test_every_record_once_and_in_the_order_of_its_key(
    muster: Muster, driver: Driver, kafka: Cluster, fresh: Callable[[str], str]
) -> None:
    group = fresh("copy")
    source = muster.topic(fresh("in"), partitions=PARTITIONS)
    target = muster.topic(fresh("out"), partitions=PARTITIONS + 1)
    produce(muster.bootstrap, source, range(COUNT), PARTITIONS)
    assert driver.run(copy, kafka, source, target, group) == [1, 2, 3, 4]
    found = consume(muster.bootstrap, target, PARTITIONS + 1)
    assert sorted(value for values in found for value in values) == [*range(COUNT)]
    for values in found:  # the records of either partition of the source, in its order
        assert [each for each in values if each % 2] == sorted(each for each in values if each % 2)
        assert [each for each in values if not each % 2] == sorted(each for each in values if not each % 2)
    assert fetched_bytes(muster, source).keys() == {f"{group} same_connection"}
