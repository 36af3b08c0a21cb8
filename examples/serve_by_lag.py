"""A deployment of Ray Serve that follows the lag of its group: from 0 to 4 replicas on a burst, and back.

usage: python -m examples.serve_by_lag

It starts a Muster and a Ray of its own, which end with it, and takes about two minutes. Once all replicas consume, one
of them ends its loop, as a handler that fails for good would, and Serve replaces it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

import muster
import muster.serve
from examples.own_ray import own_ray

TOPIC, GROUP = "orders", "shipping"
PARTITIONS = 8
REPLICAS = 4
"""At most: to start them all takes long on a small machine."""
BURST = 12_000
RECORD_S = 0.01
"""Time to handle a record: a replica handles a hundred in a second."""
TARGET_S = 10.0


class Shipping(muster.serve.Consumer):
    """Ships orders, and may be called, too."""

    topics, group = TOPIC, GROUP
    max_records, attempts = 50, 1

    def __init__(self, kafka: muster.Cluster, poison: str) -> None:
        self.cluster = kafka
        self.poison = Path(poison)
        """A file: the first replica that sees it takes it away, and fails."""
        self.shipped = 0
        self.fails = False

    def handle(self, batch: pa.Table) -> None:
        if self.fails or self.poison.exists():
            self.poison.unlink(missing_ok=True)
            self.fails = True
            raise ValueError("poisoned")
        time.sleep(RECORD_S * batch.num_rows)
        self.shipped += batch.num_rows

    def __call__(self) -> tuple[int, int]:
        """Return the process, and how many orders it has shipped."""
        return os.getpid(), self.shipped


def main() -> None:
    with muster.run() as kafka, own_ray() as directory:
        from ray import serve

        kafka.topic(TOPIC, partitions=PARTITIONS)
        serve.start(proxy_location="Disabled")
        poison = directory / "poison"
        serve.run(deployment(serve, kafka).bind(kafka, str(poison)), name="shipping", route_prefix=None)
        try:
            print("seconds  replicas  unread  oldest, s")
            print(f"{0:7}  a burst of {BURST} orders")
            produce(kafka)
            follow(serve, kafka, poison)
        finally:
            serve.shutdown()  # type: ignore[no-untyped-call]


def deployment(serve: Any, kafka: muster.Cluster) -> Any:
    """Return the deployment; the policy waits by itself, so Serve's delays are 0."""
    policy = {
        "policy_function": muster.serve.LagAutoscalingPolicy,
        "policy_kwargs": {
            "group": GROUP,
            "http": list(kafka.http),
            "topics": [TOPIC],
            "target_s": TARGET_S,
            "start_s": 6,
            "idle_s": 5,
            "down_s": 10,
        },
    }
    return serve.deployment(
        ray_actor_options={"num_cpus": 0.5},
        graceful_shutdown_timeout_s=20,
        graceful_shutdown_wait_loop_s=0.1,
        health_check_period_s=1,
        autoscaling_config={
            "min_replicas": 0,
            "initial_replicas": 0,
            "max_replicas": REPLICAS,
            "upscale_delay_s": 0,
            "downscale_delay_s": 0,
            "downscale_to_zero_delay_s": 0,
            "policy": policy,
        },
    )(Shipping)


def produce(kafka: muster.Cluster) -> None:
    producer = Producer(kafka.client())
    for number in range(BURST):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    producer.flush()


def follow(serve: Any, kafka: muster.Cluster, poison: Path) -> None:
    """Print what runs, each second, until there is no replica again; poison one when all run."""
    poisoned_s: float | None = None
    is_missing = is_replaced = False
    for at_s in seconds():
        running, others = replicas(serve)
        unread, age = lag(kafka)
        starting = f"  ({others} start or stop)" if others else ""
        print(f"{at_s:7.0f}  {running:8}  {unread:>6}  {age:>9}{starting}", flush=True)
        if poisoned_s is None:
            if running == REPLICAS:
                poisoned_s = at_s
                poison.touch()
                print(f"{at_s:7.0f}  the next batch ends the loop of its replica")
        elif running < REPLICAS:
            is_missing = True
        elif is_missing and not is_replaced:
            is_replaced = True
            print(f"{at_s:7.0f}  it is replaced, after {at_s - poisoned_s:.0f} s")
        if unread == "0" and running == others == 0:
            return


def replicas(serve: Any) -> tuple[int, int]:
    """Return how many replicas run, and how many are starting or stopping."""
    states: dict[Any, int] = serve.status().applications["shipping"].deployments["Shipping"].replica_states
    running = sum(count for state, count in states.items() if state == "RUNNING")
    return running, sum(states.values()) - running


def lag(kafka: muster.Cluster) -> tuple[str, str]:
    """Return the unread orders, and the age of the oldest one in seconds."""
    try:
        found = kafka.lag(GROUP)
    except muster.UnknownGroup:  # nobody has committed yet
        return "?", "?"
    return str(found.messages), "?" if found.seconds is None else f"{found.seconds:.0f}"


def seconds() -> Iterator[float]:
    """Yield the seconds since the first look, once in each."""
    begin_s = time.monotonic()
    while True:
        look_s = time.monotonic()
        yield look_s - begin_s
        time.sleep(max(look_s + 1 - time.monotonic(), 0))


if __name__ == "__main__":
    main()
