"""The autoscaling policy for Serve, called by hand, beside real consumers of a group that it starts and stops."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from muster.gateway.client.scaling.policy import LagAutoscalingPolicy
from tests.cluster.consumer_groups.groups import PARTITIONS, create
from tests.cluster.consumer_groups.members import Producer
from tests.gateway.client.scaling.serve_context import Deployment
from tests.muster_process import Muster

_RECORDS = 200
_WORK_S = 0.01


class Replica:
    """A member of the group that works on each record for some time."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": f"replica-{group}"}
        self._consumer = confluent_kafka.Consumer(
            {**config, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self._consumer.subscribe([topic])
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._stops.is_set():
            records = [each for each in self._consumer.consume(20, 0.1) if each.error() is None]
            self._stops.wait(_WORK_S * len(records))
            with contextlib.suppress(KafkaException):  # a rebalance: the next member reads them again
                self._consumer.commit(asynchronous=False)
        self._consumer.close()

    def stop(self) -> None:
        self._stops.set()
        self._thread.join(60)


def test_replicas_come_and_go_with_the_lag(muster: Muster, fresh: Callable[[str], str]) -> None:
    """The group is unknown at first: no member of it ever was."""
    topic, group = fresh("t"), fresh("scaled")
    create(muster, topic)
    times = {"target_s": 2.0, "poll_s": 0.2, "start_s": 2.0, "idle_s": 2.0, "down_s": 2.0}
    deployment = Deployment(LagAutoscalingPolicy(group, muster.metrics_urls, topics=[topic], **times))
    replicas: list[Replica] = []
    sizes = [0]

    def resize() -> None:
        if sizes[-1] != deployment.target_num_replicas:
            sizes.append(deployment.target_num_replicas)
        while len(replicas) < sizes[-1]:
            replicas.append(Replica(muster.bootstrap, topic, group))
        while len(replicas) > sizes[-1]:
            replicas.pop().stop()

    deployment.until(lambda _: deployment.policy._poller.lag is not None)
    assert deployment.step() == 0
    producer = Producer(muster.bootstrap, topic)
    producer.send(_RECORDS * PARTITIONS)
    producer.flush()
    try:
        deployment.until(lambda size: size > 1, resize)
        deployment.until(lambda size: size == 0, resize)
    finally:
        for replica in replicas:
            replica.stop()
    assert sizes[:2] == [0, 1]
    assert 1 < max(sizes) <= PARTITIONS
    reader = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": group})
    committed = reader.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], 30)
    reader.close()
    assert sum(each.offset for each in committed) == _RECORDS * PARTITIONS
