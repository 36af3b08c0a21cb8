"""``python -m tests.serve.application``: a Ray of its own, and a deployment in it that the lag of a group scales.

Arguments as JSON on the command line. Prints a line of JSON whenever the number of replicas changes, until stdin ends.
"""

from __future__ import annotations

import contextlib
import json
import select
import sys
import threading
import time
from typing import Any

import ray
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

from muster.serve import LagAutoscalingPolicy

_OBJECT_STORE_BYTES = 80 << 20
_WORK_S = 0.02
_TIMES = {"target_s": 4, "poll_s": 0.5, "start_s": 5, "idle_s": 4, "down_s": 4}


@serve.deployment(ray_actor_options={"num_cpus": 0}, graceful_shutdown_timeout_s=30, graceful_shutdown_wait_loop_s=0.1)
class Reader:
    """A member of the group that works on each record for some time."""

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        from confluent_kafka import Consumer  # its classes cannot be pickled by name

        self._consumer = Consumer({"enable.auto.commit": False, "auto.offset.reset": "earliest"} | config)
        self._consumer.subscribe([topic])
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._stops.is_set():
            messages = [each for each in self._consumer.consume(25, 0.2) if each.error() is None]
            time.sleep(_WORK_S * len(messages))
            with contextlib.suppress(Exception):  # during a rebalance: who gets the partition reads them again
                self._consumer.commit(asynchronous=False)
        self._consumer.close()

    def __call__(self) -> None:
        """Nothing: it reads."""

    def check_health(self) -> None:
        if not self._thread.is_alive():
            raise RuntimeError("the consumer has ended")

    def __del__(self) -> None:
        self._stops.set()
        self._thread.join(20)


def main(bootstrap: str, http: list[str], group: str, topic: str) -> None:
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES, log_to_driver=False)
    scaling = AutoscalingConfig(
        min_replicas=0,
        max_replicas=4,
        initial_replicas=0,
        upscale_delay_s=0,
        downscale_delay_s=0,
        policy=AutoscalingPolicy(
            policy_function=LagAutoscalingPolicy,
            policy_kwargs={"group": group, "http": http, "topics": [topic], **_TIMES},
        ),
    )
    serve.start(proxy_location="Disabled")
    config = {"bootstrap.servers": bootstrap, "group.id": group}
    reader: Any = Reader
    serve.run(reader.options(autoscaling_config=scaling).bind(config, topic), route_prefix=None)
    try:
        follow()
    finally:
        serve.shutdown()
        ray.shutdown()


def follow() -> None:
    """Print changes of the application until stdin ends."""
    last = None
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        (application,) = serve.status().applications.values()
        (deployment,) = application.deployments.values()
        now = {"status": deployment.status, "replicas": {str(k): v for k, v in deployment.replica_states.items()}}
        if now != last:
            print(json.dumps(now), flush=True)
            last = now


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
