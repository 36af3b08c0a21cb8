"""A pool on Apache Kafka: the dead member is evicted there as well, whatever protocol its group has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.gateway.client.cluster import Cluster
from muster.pool import Sizing
from tests.muster_process import eventually
from tests.ray.pool.kit import Kit, kill, registered, until_workers, writing
from tests.ray_head import connected

COUNT = 400
OWNED_S = 20
"""The session timeout is 45 s, and members of the consumer protocol have a heartbeat each 5 s."""


@pytest.fixture(scope="module")
def on_ray() -> Iterator[None]:
    """Connect to a Ray of its own."""
    with connected():
        yield


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_dead_worker_is_evicted_and_replaced(
    bootstrap: str, on_ray: None, fresh: Callable[[str], str], tmp_path: Path, protocol: str
) -> None:
    kit = Kit(Cluster(bootstrap), fresh, tmp_path)
    kit.produce(COUNT)
    sizing = Sizing(2, 2)
    pool = kit.start(writing(kit.out), sizing=sizing, consumer_config={"group.protocol": protocol})
    try:
        before = until_workers(pool, 2)
        kit.until_owned(by=2)
        kit.until_handled(COUNT)
        kit.until_committed(COUNT)
        dead = next(each for each in kit.members() if each.client_id.endswith("-0"))
        kill(before[0])
        killed_s = time.monotonic()
        kit.until_owned(without=dead.member_id, timeout_s=OWNED_S)
        print(f"all partitions are owned {time.monotonic() - killed_s:.1f} s after the kill")
        kit.produce(COUNT, COUNT)
        kit.until_handled(2 * COUNT)
        kit.until_committed(2 * COUNT)
        assert until_workers(pool, 2)[1] == before[1]
        assert pool.status().evicted == 1
        eventually(lambda: pool.status().lag, lambda lag: lag == 0, "there is no lag")
    finally:
        pool.stop()
    assert not registered(pool)
    assert not kit.members()
