"""A pool beside one member that dies: what every change must keep."""

from __future__ import annotations

import time

import pytest

from muster.pool import PoolState
from tests.ray.pool.kit import PARTITIONS, Kit, kill, until_workers, workers, writing

pytestmark = pytest.mark.ring(name="ray")

COUNT = 400
OWNED_S = 30
"""The session timeout is 45 s."""


def test_a_dead_worker_is_evicted_and_replaced(kit: Kit) -> None:
    kit.produce(COUNT)
    pool = kit.start(writing(kit.out), low=2, high=2)
    before = until_workers(pool, 2)
    kit.until_owned(by=2)
    kit.until_handled(COUNT)
    kit.until_committed(COUNT)
    assert len(kit.handled()) == COUNT, "nothing is handled twice in quiet times"
    assert set(kit.by_pid()) <= set(before.values())

    dead = next(each for each in kit.members() if each.client_id.endswith("-0"))
    assert dead.partitions
    kill(before[0])
    killed_s = time.monotonic()
    kit.until_owned(without=dead.member_id, timeout_s=OWNED_S)
    print(f"all partitions are owned {time.monotonic() - killed_s:.1f} s after the kill")
    kit.produce(COUNT, COUNT)
    kit.until_handled(2 * COUNT)
    after = until_workers(pool, 2)
    assert after[1] == before[1]
    assert after[0] != before[0]
    kit.until_owned(by=2)
    kit.until_committed(2 * COUNT)

    status = pool.status()
    assert (status.deaths, status.evicted, status.lag, status.size) == (1, 1, 0, 2)
    assert sorted(each for one in status.workers for each in one.partitions) == [
        (kit.topic, index) for index in range(PARTITIONS)
    ]
    pool.stop()
    assert pool.status().state is PoolState.STOPPED
    assert not kit.members(), "both have left the group"
    assert not workers(pool)
