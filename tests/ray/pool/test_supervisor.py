"""The supervisor dies, or is stopped, while workers run."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import ray

import muster.pool
from muster.gateway.client.pool.names import NAMESPACE, supervisor_name
from muster.pool import PoolExists, PoolNotFound, PoolState, Sizing
from tests.muster_process import eventually
from tests.ray.pool.kit import Kit, kill, pid_of, registered, supervisor, until_workers, workers, writing

pytestmark = pytest.mark.ring(name="ray")

COUNT = 400


def test_workers_go_on_without_their_supervisor(kit: Kit) -> None:
    pool = kit.start(writing(kit.out), low=2, high=2)
    before = until_workers(pool, 2)
    kit.until_owned(by=2)
    owned = kit.owned()
    old = pid_of(supervisor(pool))
    kill(old)
    kit.produce(COUNT)
    kit.until_handled(COUNT)
    assert pid_of(supervisor(pool)) != old
    assert until_workers(pool, 2) == before
    kit.until_committed(COUNT)
    assert len(kit.handled()) == COUNT
    assert kit.owned() == owned, "no rebalance"
    assert registered(pool) == [0, 1]

    dead = next(each for each in kit.members() if each.client_id.endswith("-1"))
    kill(before[1])
    kit.until_owned(without=dead.member_id, timeout_s=30)
    assert until_workers(pool, 2)[0] == before[0]


def test_a_worker_that_dies_with_the_supervisor_is_replaced(kit: Kit) -> None:
    pool = kit.start(writing(kit.out), low=2, high=2)
    before = until_workers(pool, 2)
    kit.until_owned(by=2)
    dead = next(each for each in kit.members() if each.client_id.endswith("-0"))
    pid = pid_of(supervisor(pool))
    kill(before[0])
    kill(pid)
    kit.until_owned(without=dead.member_id, timeout_s=30)
    after = until_workers(pool, 2)
    assert after[1] == before[1]
    assert sorted(each.client_id[-2:] for each in kit.members()) == ["-0", "-1"]


def test_workers_end_by_themselves_if_the_supervisor_ends_for_good(kit: Kit) -> None:
    """So they do if the driver dies while it stops the pool."""
    kit.produce(COUNT)
    pool = kit.start(writing(kit.out), low=2, high=2)
    until_workers(pool, 2)
    ray.kill(supervisor(pool), no_restart=True)
    eventually(lambda: registered(pool), lambda found: not found, "no worker is left")
    assert not kit.members(), "they have left in order"
    assert pool.status().state is PoolState.STOPPED
    pool.stop()


def test_a_supervisor_that_is_killed_during_a_stop_starts_nothing(kit: Kit) -> None:
    kit.produce(COUNT)
    pool = kit.start(writing(kit.out, each_s=0.05), low=2, high=2)
    until_workers(pool, 2)
    eventually(lambda: pool.status().workers[0].handles_for_s, lambda age: age is not None, "a batch is handled")
    pid = pid_of(supervisor(pool))
    stop = threading.Thread(target=pool.stop)
    stop.start()
    kill(pid)
    stop.join()
    assert not registered(pool)
    with pytest.raises(PoolNotFound):
        muster.pool.find(pool.name)
    assert not kit.members()


def test_a_pool_is_found_and_not_started_twice(kit: Kit) -> None:
    with kit.start(writing(kit.out), low=1, high=1, name="a pool: of/names") as pool:
        pids = until_workers(pool, 1)
        with pytest.raises(PoolExists, match="a pool: of/names"):
            kit.start(writing(kit.out), name="a pool: of/names")
        assert workers(muster.pool.find("a pool: of/names")) == pids
        assert workers(pickle.loads(pickle.dumps(pool))) == pids
        with kit.start(writing(kit.out), low=1, high=1) as other:
            until_workers(other, 1)
            kit.until_owned(by=2)
            assert workers(pool) == pids, "a pool of the same group leaves it alone"
            assert pool.status().evicted == other.status().evicted == 0
        kit.until_owned(by=1)
    with pytest.raises(PoolNotFound, match="start"):
        muster.pool.find("a pool: of/names")
    with kit.start(writing(kit.out), low=1, high=1, name="a pool: of/names") as next_one:
        pids = until_workers(next_one, 1)
        pool.stop()
        pool.wait()
        assert pool.status().state is PoolState.STOPPED
        assert workers(next_one) == pids, "the pool that was stopped before is another one"


PROGRAM = """
import sys, ray, muster.pool
from muster.gateway.client.cluster import Cluster

bootstrap, address, topic, group, out = sys.argv[1:]
ray.init(address, log_to_driver=False)
large = b"x" * 1_000_000

class Handler:
    def __call__(self, table):
        assert len(large) == 1_000_000
        with open(out, "a") as file:
            for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist()):
                file.write(f"{topic} {partition} {offset} 0\\n")

options = {"num_cpus": 0.1}
muster.pool.start(Handler, topic, group=group, low=1, cluster=Cluster(bootstrap), ray_actor_options=options)
"""


def test_a_pool_outlives_its_driver(kit: Kit, tmp_path: Path) -> None:
    """Its supervisor is restarted, and starts workers, without the process that had the handler."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    address = ray.get_runtime_context().gcs_address
    arguments = [kit.cluster.bootstrap, address, kit.topic, kit.group, str(kit.out)]
    subprocess.run([sys.executable, program, *arguments], check=True, timeout=120)
    pool = muster.pool.find(kit.group)
    kit.pools.append(pool)
    (pid,) = until_workers(pool, 1).values()
    kill(pid_of(supervisor(pool)))
    kill(pid)
    eventually(lambda: workers(pool), lambda found: found and pid not in found.values(), "it is replaced")
    kit.produce(COUNT)
    kit.until_handled(COUNT)


def test_from_no_worker_to_some_and_back(kit: Kit) -> None:
    kit.produce(COUNT)
    sizing = Sizing(0, 3, target_s=2, start_s=2, idle_s=3, down_s=3)
    pool = kit.start(writing(kit.out, each_s=0.02), sizing=sizing, max_records=20)
    assert pool.size == 0
    sizes: list[int] = []
    begin_s = time.monotonic()

    def look() -> int:
        sizes.append(pool.size)
        return sizes[-1]

    kit.produce(4 * COUNT, COUNT)
    eventually(look, lambda size: size == 3, "it grows to 3")
    kit.until_handled(5 * COUNT)
    kit.until_committed(5 * COUNT)
    eventually(look, lambda size: size == 0, "it shrinks to 0")
    print(f"0 -> 3 -> 0 in {time.monotonic() - begin_s:.0f} s")
    eventually(lambda: registered(pool), lambda found: not found, "no actor is left but the supervisor")
    assert not kit.members()
    kit.produce(4, 5 * COUNT)
    kit.until_handled(5 * COUNT + 4)
    assert ray.get_actor(supervisor_name(pool.name), NAMESPACE)
    assert pool.status().deaths == 0
