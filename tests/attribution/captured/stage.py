"""Stage of the scenarios: topics with records, and clients in processes of their own, whose bytes can be told apart."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import OFFSET_INVALID, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pytest_muster.bound import bound
from tests.attribution.captured.client import Library, Role, Spec
from tests.attribution.scrape import scrape
from tests.attribution.truth import PENDING, Books, Group

PENDING_MS = 15_000
"""attribution.pending.ms."""
_ROOT = Path(__file__).parents[3]
_VALUE_BYTES = 1_000
_BATCH_RECORDS = 20
_STEP_S = 60
_SETTLE_S = PENDING_MS / 1000 + 10
_POLL_S = 0.5
_HARNESS = "harness"
"""Client id of what prepares a scenario: no client of a scenario has it."""
_ENDED = "ended"


class RunningClient:
    """A process of ``client.py``. Its steps raise TimeoutError after a minute, ChildProcessError if it has ended."""

    def __init__(self, spec: Spec) -> None:
        command = [sys.executable, "-m", "tests.attribution.captured.client", spec.encode()]
        self._process = subprocess.Popen(
            bound(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT, env=dict(os.environ)
        )
        self._spec = spec
        self._lines: queue.Queue[str] = queue.Queue()
        self._said: set[str] = set()
        threading.Thread(target=self._listen, daemon=True).start()

    def has_read(self) -> None:
        """Wait until it has read its records."""
        self._expect("read")

    def is_idle(self) -> None:
        """Wait until it has got nothing for two seconds after them."""
        self._expect("idle")

    def commit(self) -> None:
        self._do("commit")

    def close(self) -> None:
        """Close the client's connections and end its process."""
        self.begin_to_close()
        self._expect("close")
        self._process.wait(_STEP_S)

    def begin_to_close(self) -> None:
        assert self._process.stdin is not None
        with suppress(ValueError):  # it was told before
            print("close", file=self._process.stdin, flush=True)
            self._process.stdin.close()

    def end(self) -> None:
        """Kill the process, if it is there."""
        self._process.kill()
        self._process.wait()

    def _do(self, order: str) -> None:
        print(order, file=self._process.stdin, flush=True)
        self._expect(order)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put(_ENDED)

    def _expect(self, wanted: str) -> None:
        while wanted not in self._said:
            try:
                line = self._lines.get(timeout=_STEP_S)
            except queue.Empty:
                raise TimeoutError(f"{self._spec} did not {wanted!r} within {_STEP_S} s") from None
            if line == _ENDED:
                raise ChildProcessError(f"{self._spec} ended before {wanted!r}")
            self._said.add(line)


class Stage:
    """One scenario. Its topics, groups and racks begin with its name."""

    def __init__(self, name: str, bootstrap: str, metrics: Iterable[str]) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self._metrics = list(metrics)
        self.owners: dict[str, Group] = {}
        """The group of each client, by its rack."""
        self._partitions: dict[str, int] = {}
        """Number of partitions of each topic."""
        self._clients: list[RunningClient] = []

    def topic(self, records: int, *, partitions: int = 2, compression: str = "none") -> str:
        """Create a topic with that many records, spread evenly over its partitions; return its name."""
        name = f"{self.name}.{len(self._partitions)}"
        self._partitions[name] = partitions
        admin = self._admin(_HARNESS)
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(_STEP_S)
        config = {"compression.type": compression, "batch.num.messages": _BATCH_RECORDS, "linger.ms": 100}
        producer = Producer({"bootstrap.servers": self.bootstrap, "client.id": _HARNESS, **config})
        errors: list[object] = []
        for number in range(records):
            value = f"{number:08}".encode() * (_VALUE_BYTES // 8)
            producer.produce(name, value, partition=number % partitions, on_delivery=lambda e, _: errors.append(e))
        if producer.flush(_STEP_S) or any(errors):
            raise TimeoutError(f"records of {name} were not acknowledged")
        return name

    def group(self, name: str) -> str:
        return f"{self.name}.{name}"

    def start(
        self,
        library: Library,
        role: Role,
        topic: str,
        group: str | None,
        count: int,
        *,
        start: int = 0,
        client_id: str | None = None,
    ) -> RunningClient:
        """Start a client that reads that many records."""
        rack = f"{self.name}-{len(self.owners)}"
        self.owners[rack] = group
        spec = Spec(library, role, self.bootstrap, topic, self._partitions[topic], group, rack, count, start, client_id)
        self._clients.append(client := RunningClient(spec))
        return client

    def begin_at(self, group: str, topic: str, offset: int) -> None:
        """Set the offsets of a group without members, under a client id that no client has."""
        wanted = ConsumerGroupTopicPartitions(group, self._places(topic, offset))
        admin = self._admin(_HARNESS)
        admin.alter_consumer_group_offsets([wanted])[group].result(_STEP_S)

    def look_at(self, group: str, topic: str, client_id: str) -> None:
        """Request the group's offsets as exporters of lag do."""
        wanted = ConsumerGroupTopicPartitions(group, self._places(topic))
        admin = self._admin(client_id)
        admin.list_consumer_group_offsets([wanted])[group].result(_STEP_S)

    def _admin(self, client_id: str) -> AdminClient:
        """Keep it until the response is there."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "client.id": client_id})

    def _places(self, topic: str, offset: int = OFFSET_INVALID) -> list[TopicPartition]:
        return [TopicPartition(topic, partition, offset) for partition in range(self._partitions[topic])]

    def settle(self) -> None:
        """Wait until no attribution is pending in its topics."""
        deadline_s = time.monotonic() + _SETTLE_S
        while True:
            books = counted(self._metrics, "bytes").of(f"{self.name}.")
            if not any(reason == PENDING and amount for (reason, _), amount in books.reasons.items()):
                return
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self.name} is pending after {_SETTLE_S} s")
            time.sleep(_POLL_S)

    def end(self) -> None:
        """End what a scenario that failed has left."""
        for client in self._clients:
            client.end()


def counted(metrics: Iterable[str], unit: str) -> Books:
    """Return the counts of all gateways, in bytes or messages."""
    books = Books()
    for url in metrics:
        books.add(scrape(url, unit))
    return books
