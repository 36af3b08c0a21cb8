"""One real client in a process of its own: ``python -m tests.attribution.captured.client JSON``.

It prints ``read`` when it has read ``count`` records, and ``idle`` when nothing has come for two seconds thereafter.
Then it does what its standard input says, a line each, and prints that line when it is done: ``commit``, ``close``.
A member fetches all the time; another client no longer once it has read its records.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

import confluent_kafka
import kafka

Library = Literal["kafka-python", "confluent"]
Role = Literal["member", "simple", "nobody"]
POLL_S = 0.2
IDLE_S = 2.0
_BETWEEN_S = 0.001
_NEVER_JOINS = "never-joins"
"""librdkafka insists on a group.id."""


@dataclass(frozen=True, slots=True)
class Spec:
    library: Library
    role: Role
    bootstrap: str
    topic: str
    partitions: int
    group: str | None
    rack: str
    count: int
    start: int = 0
    """The offset at which a client without a group begins, in each partition."""
    client_id: str | None = None
    """None: the library's default."""

    def encode(self) -> str:
        return json.dumps(asdict(self))


class Client(Protocol):
    def poll(self) -> int:
        """Poll for ``POLL_S``; return the number of records."""

    def commit(self) -> None:
        """Commit what was read."""

    def close(self) -> None: ...


class KafkaPython:
    def __init__(self, spec: Spec) -> None:
        named = {"client_id": spec.client_id} if spec.client_id else {}
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=spec.bootstrap.split(","),
            group_id=spec.group,
            client_rack=spec.rack,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **named,
        )
        if spec.role == "member":
            self._consumer.subscribe([spec.topic])
            return
        places = [kafka.TopicPartition(spec.topic, partition) for partition in range(spec.partitions)]
        self._consumer.assign(places)
        if spec.role == "nobody":
            for place in places:
                self._consumer.seek(place, spec.start)

    def poll(self) -> int:
        return sum(map(len, self._consumer.poll(POLL_S * 1000).values()))

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class Confluent:
    def __init__(self, spec: Spec) -> None:
        config: dict[str, str | bool] = {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group or _NEVER_JOINS,
            "client.rack": spec.rack,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if spec.client_id:
            config["client.id"] = spec.client_id
        self._consumer = confluent_kafka.Consumer(config)
        if spec.role == "member":
            self._consumer.subscribe([spec.topic])
            return
        start = spec.start if spec.role == "nobody" else confluent_kafka.OFFSET_STORED
        self._consumer.assign(
            [confluent_kafka.TopicPartition(spec.topic, partition, start) for partition in range(spec.partitions)]
        )

    def poll(self) -> int:
        return sum(message.error() is None for message in self._consumer.consume(500, POLL_S))

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


_LIBRARIES: dict[str, type[KafkaPython | Confluent]] = {"kafka-python": KafkaPython, "confluent": Confluent}


def _listen(orders: queue.Queue[str]) -> None:
    for line in sys.stdin:
        orders.put(line.strip())


def run(spec: Spec) -> None:
    orders: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    client: Client = _LIBRARIES[spec.library](spec)
    left, last_s, is_idle = spec.count, time.monotonic(), False
    while True:
        reads = left > 0 or spec.role == "member"
        if reads and (found := client.poll()):
            last_s = time.monotonic()
            if left > 0 >= left - found:
                print("read", flush=True)
            left -= found
        if left <= 0 and not is_idle and time.monotonic() - last_s > IDLE_S:
            is_idle = True
            print("idle", flush=True)
        try:
            order = orders.get(timeout=_BETWEEN_S if reads else POLL_S)
        except queue.Empty:
            continue
        if order == "commit":
            client.commit()
        elif order == "close":
            client.close()
        print(order, flush=True)
        if order == "close":
            return


if __name__ == "__main__":
    run(Spec(**json.loads(sys.argv[1])))
