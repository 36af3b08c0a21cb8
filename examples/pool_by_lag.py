"""A pool of Ray actors that follows the lag of its group: from 0 to 8 workers on a burst, and back.

usage: python -m examples.pool_by_lag

It starts a Muster and a Ray of its own, which end with it, and takes about two minutes. While all work, it kills one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import Producer

import muster
import muster.pool
from examples.own_ray import own_ray

TOPIC, GROUP = "orders", "shipping"
PARTITIONS = 8
BURST = 12_000
RECORD_S = 0.01
"""Time to handle a record: a worker handles a hundred in a second."""
TARGET_S = 10.0


class Shipping:
    """Ships orders; each worker makes one of it."""

    def __call__(self, orders: pa.Table) -> None:
        time.sleep(RECORD_S * orders.num_rows)


def main() -> None:
    with muster.run() as kafka, own_ray():
        kafka.topic(TOPIC, partitions=PARTITIONS)
        sizing = muster.pool.Sizing(low=0, high=PARTITIONS, target_s=TARGET_S, start_s=6, idle_s=5, down_s=10)
        pool = muster.pool.start(
            Shipping,
            TOPIC,
            group=GROUP,
            max_records=50,
            ray_actor_options={"num_cpus": 0.5},
            cluster=kafka,
            sizing=sizing,
        )
        with pool:
            print("seconds  size  unread  oldest, s  partitions of the workers")
            print(f"{0:7}  {pool.size:4}  a burst of {BURST} orders")
            produce(kafka)
            follow(pool, kafka)
        print(f"stopped: {pool.status().state}")


def produce(kafka: muster.Cluster) -> None:
    producer = Producer(kafka.client())
    for number in range(BURST):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()


def follow(pool: muster.pool.Pool, kafka: muster.Cluster) -> None:
    """Print what the pool does, each second, until it has no worker again; kill one when there are eight."""
    killed: muster.pool.WorkerStatus | None = None
    killed_s = 0.0
    is_owned = is_replaced = False
    for at_s, status in looks(pool):
        show(at_s, status, kafka)
        running = [each for each in status.workers if each.state == "running" and each.partitions]
        if killed is None and len(running) == PARTITIONS:
            killed, killed_s = running[0], time.monotonic()
            assert killed.pid is not None
            os.kill(killed.pid, signal.SIGKILL)
            print(f"{at_s:7.0f}  worker {killed.slot} is killed; it had {names(killed)}")
        elif killed is not None:
            others = [each for each in running if each.pid != killed.pid]
            after_s = time.monotonic() - killed_s
            if not is_owned and {part for each in others for part in each.partitions}.issuperset(killed.partitions):
                is_owned = True
                print(f"{at_s:7.0f}  others have its partitions, {after_s:.1f} s after it was killed")
            if not is_replaced and any(each.slot == killed.slot for each in others):
                is_replaced = True
                print(f"{at_s:7.0f}  it is replaced, {after_s:.1f} s after it was killed")
        if status.lag == 0 and status.size == 0 and not status.workers:
            return


def looks(pool: muster.pool.Pool) -> Iterator[tuple[float, muster.pool.PoolStatus]]:
    """Yield the seconds since the first look and the status, each second."""
    begin_s = time.monotonic()
    while True:
        look_s = time.monotonic()
        yield look_s - begin_s, pool.status()
        time.sleep(max(look_s + 1 - time.monotonic(), 0))


def show(at_s: float, status: muster.pool.PoolStatus, kafka: muster.Cluster) -> None:
    try:
        age_s = kafka.lag(GROUP).seconds
    except muster.UnknownGroup:  # nobody has committed yet
        age_s = None
    unread = "?" if status.lag is None else status.lag
    age = "?" if age_s is None else f"{age_s:.0f}"
    print(f"{at_s:7.0f}  {status.size:4}  {unread:>6}  {age:>9}  {' '.join(map(names, status.workers))}", flush=True)


def names(worker: muster.pool.WorkerStatus) -> str:
    """Return the worker's partitions, or its state if it has none."""
    return "+".join(str(index) for _, index in worker.partitions) or f"({worker.state})"


if __name__ == "__main__":
    main()
