"""Topics, records, handlers that write what they handle to a file, and looks at a pool from outside."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import muster.pool
from muster.gateway.client.cluster import Cluster
from muster.gateway.client.kafka.groups import Member, members_of
from muster.gateway.client.pool.names import NAMESPACE, supervisor_name, worker_slots
from tests.muster_process import eventually

PARTITIONS = 4
WAIT_S = 60
SMALL = {"num_cpus": 0.1}
Record = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass
class Kit:
    """Everything is in one group and one topic, unless a test makes more."""

    cluster: Cluster
    fresh: Callable[[str], str]
    directory: Path
    pools: list[muster.pool.Pool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group = self.fresh("pool")
        self.topic = self.new_topic()
        self.out = self.directory / "handled"
        self.producer = Producer({"bootstrap.servers": self.cluster.bootstrap})

    def new_topic(self, partitions: int = PARTITIONS) -> str:
        name = self.fresh("pool-topic")
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        admin.create_topics([NewTopic(name, partitions)])[name].result(WAIT_S)
        return name

    def produce(self, count: int, begin: int = 0, **more: Any) -> None:
        """Append records, the values of which are numbers, to all partitions in turn."""
        for number in range(begin, begin + count):
            value = str(number).encode()
            self.producer.produce(self.topic, value, value, partition=number % PARTITIONS, **more)
        assert not self.producer.flush(WAIT_S)

    def start(self, handle: Any, topics: Any = None, **options: Any) -> muster.pool.Pool:
        """Start a pool of small workers."""
        settings = {
            "group": self.group,
            "cluster": self.cluster,
            "ray_actor_options": SMALL,
            "max_records": 50,
            **options,
        }
        pool = muster.pool.start(handle, topics or self.topic, **settings)
        self.pools.append(pool)
        return pool

    def close(self) -> None:
        for pool in self.pools:
            pool.stop(0)
        del self.producer

    def handled(self) -> list[Record]:
        """Return the records that handlers of :func:`writing` have handled, in order."""
        lines = self.out.read_text().split("\n")[:-1] if self.out.exists() else []
        return [(topic, int(partition), int(offset)) for topic, partition, offset, _ in map(str.split, lines)]

    def by_pid(self) -> Counter[int]:
        """Return how many records each process has handled."""
        return Counter(int(line.split()[3]) for line in self.out.read_text().split("\n")[:-1])

    def until_handled(self, count: int, timeout_s: float = WAIT_S) -> None:
        eventually(lambda: len(set(self.handled())), lambda found: found == count, f"{count} are handled", timeout_s)

    def committed(self) -> dict[int, int]:
        """Return the committed offsets of the topic."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": self.group})
        try:
            found = consumer.committed([TopicPartition(self.topic, index) for index in range(PARTITIONS)], WAIT_S)
        finally:
            consumer.close()
        return {each.partition: each.offset for each in found}

    def until_committed(self, count: int) -> None:
        """Wait until as many records of each partition are committed."""
        wanted = dict.fromkeys(range(PARTITIONS), count // PARTITIONS)
        eventually(self.committed, lambda found: found == wanted, "all is committed", WAIT_S)

    def members(self) -> list[Member]:
        with self.cluster.coordinator(self.group, "tests") as coordinator:
            return members_of(coordinator, self.group)

    def owned(self) -> dict[tuple[str, int], str]:
        """Return the member that has each partition, as the coordinator has it."""
        return {partition: each.member_id for each in self.members() for partition in each.partitions}

    def until_owned(self, by: int | None = None, without: str = "", timeout_s: float = WAIT_S) -> None:
        """Wait until members have all partitions: so many, if that is given, and none of that name."""
        eventually(
            self.owned,
            lambda found: (
                len(found) == PARTITIONS and by in (None, len(set(found.values()))) and without not in found.values()
            ),
            "members have all partitions",
            timeout_s,
        )


def writing(out: Path, *, each_s: float = 0.0) -> Callable[[pa.Table], None]:
    """Return a handler that appends a line for each record."""

    def handle(table: pa.Table) -> None:
        threading.Event().wait(each_s * table.num_rows)
        rows = zip(*(table[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        lines = "".join(f"{topic} {partition} {offset} {os.getpid()}\n" for topic, partition, offset in rows)
        with out.open("a") as file:
            file.write(lines)

    return handle


def workers(pool: muster.pool.Pool, state: str = "running") -> dict[int, int]:
    """Return the process of each worker in that state, by slot; wait for workers that are too busy to say."""
    found = eventually(
        lambda: [each for each in pool.status().workers if each.state == state],
        lambda some: all(each.pid is not None for each in some),
        "the workers say what they do",
    )
    return {each.slot: each.pid for each in found if each.pid is not None}


def until_workers(pool: muster.pool.Pool, count: int, timeout_s: float = WAIT_S) -> dict[int, int]:
    """Wait until exactly so many workers run, and no other is there. Return their processes."""
    found = eventually(
        lambda: pool.status().workers,
        lambda workers: [(each.state, each.pid is not None) for each in workers] == [("running", True)] * count,
        f"{count} workers run, and say so",
        timeout_s,
    )
    return {each.slot: each.pid for each in found if each.pid is not None}


def registered(pool: muster.pool.Pool) -> list[int]:
    """Return the slots of workers that Ray knows."""
    return worker_slots(pool.plan.token, ray.util.list_named_actors(all_namespaces=True))


def supervisor(pool: muster.pool.Pool) -> Any:
    return ray.get_actor(supervisor_name(pool.name), NAMESPACE)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def pid_of(actor: Any) -> int:
    """Return the process of an actor, which may be restarted now."""

    def pid() -> int:
        found: int = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
        return found

    return eventually(pid, bool, "the actor responds")
