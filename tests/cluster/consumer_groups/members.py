"""Group members with unmodified client libraries, each on its own thread, that record their events."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterable
from typing import Any, Literal

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka import KafkaError as KafkaErrorCode
from confluent_kafka import TopicPartition
from kafka.errors import KafkaError

_JOIN_S = 120
_JOIN_GROUP_MS = 20_000
Offsets = dict[int, int]
"""Partition -> next offset."""
Move = tuple[Literal["assigned", "revoked"], frozenset[int]]
"""The kind of a rebalance callback, and its partitions. Lost ones are revoked, too."""


class Gap:
    """The longest time between two events since the last start."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.longest_s, self._last_s = 0.0, time.monotonic()

    def mark(self) -> None:
        now_s = time.monotonic()
        self.longest_s, self._last_s = max(self.longest_s, now_s - self._last_s), now_s


class Member(threading.Thread):
    """Reads one topic for a group and commits what it read, round after round, until :meth:`leave`."""

    def __init__(self, bootstrap: str, topic: str, group: str, **config: Any) -> None:
        super().__init__(name=f"{group}-{type(self).__name__}", daemon=True)
        self.bootstrap, self.topic, self.group, self.config = bootstrap, topic, group, config
        self.read: list[tuple[int, int, bytes]] = []
        """Partition, offset and value of every record, in the order of arrival."""
        self.committed: Offsets = {}
        """The last commit that was acknowledged."""
        self.commits = 0
        self.moves: list[Move] = []
        """Every assignment, and every revocation of at least one partition, in the order of the callbacks."""
        self.assigned: set[int] = set()
        self.refused: list[BaseException] = []
        """Errors of commits, after which the next round tries again."""
        self.fatal: BaseException | None = None
        self.gap = Gap()
        """Between two acknowledged commits."""
        self._leaving = threading.Event()
        self._pending: Offsets = {}
        """Read and not committed, of partitions that the member still owns."""

    @property
    def rebalances(self) -> int:
        """Assignments and revocations that the library reported to its application."""
        return len(self.moves)

    def values(self) -> list[bytes]:
        return [value for _, _, value in list(self.read)]

    def begin_to_leave(self) -> None:
        """Close the consumer soon; :meth:`leave` waits for it."""
        self._leaving.set()

    def leave(self) -> None:
        """Close the consumer, and raise the error that ended the thread early, if any."""
        self.begin_to_leave()
        self.join(_JOIN_S)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.fatal is not None:
            raise self.fatal

    def identity(self) -> tuple[Any, ...]:
        """Member id and, if the library reports it, generation."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.name} {self.progress()}>"

    def progress(self) -> dict[str, Any]:
        """How far it is, for the message of a test that fails."""
        return {"assigned": self.assigned, "committed": self.committed, "refused": self.refused[-3:]}

    def run(self) -> None:
        try:
            self._consume()
        except BaseException as error:
            self.fatal = error

    def _consume(self) -> None:
        raise NotImplementedError

    def _read(self, records: list[tuple[int, int, bytes]]) -> Offsets:
        """Return the offsets to commit now: of these records, and of those that could not be committed before."""
        self.read.extend(records)
        self._pending = self._pending | {partition: offset + 1 for partition, offset, _ in records}
        return self._pending

    def _acknowledged(self, offsets: Offsets) -> None:
        self._pending = {}
        self.committed.update(offsets)
        self.commits += 1
        self.gap.mark()

    def _assign(self, partitions: Iterable[int]) -> None:
        given = frozenset(partitions)
        self.assigned = self.assigned | given
        self.moves.append(("assigned", given))

    def _revoke(self, partitions: Iterable[int]) -> None:
        """Drop the partitions.

        The next owner continues from what is committed: a later commit of these would revert that.
        """
        taken = frozenset(partitions)
        self.assigned = self.assigned - taken
        self._pending = {partition: at for partition, at in self._pending.items() if partition not in taken}
        if taken:
            self.moves.append(("revoked", taken))


_OF_PARTITION = ("broker", "leader", "fetch_state", "fetchq_cnt", "app_offset", "next_offset", "hi_offset")


class ConfluentMember(Member):
    """librdkafka. It reports its member id only on its own thread, and its generation not at all."""

    _member_id: str | None = None

    def __init__(self, bootstrap: str, topic: str, group: str, **config: Any) -> None:
        super().__init__(bootstrap, topic, group, **config)
        self.errors: list[confluent_kafka.KafkaError] = []
        """Errors in place of records."""
        self._statistics = "{}"

    def identity(self) -> tuple[Any, ...]:
        return (self._member_id,)

    def progress(self) -> dict[str, Any]:
        """With what librdkafka said of each partition within the last seconds."""
        topics = json.loads(self._statistics).get("topics", {})
        partitions = topics.get(self.topic, {}).get("partitions", {}).items()
        states = {number: [state[name] for name in _OF_PARTITION] for number, state in partitions if number != "-1"}
        return super().progress() | {"errors": self.errors[-3:], ", ".join(_OF_PARTITION): states}

    def _consume(self) -> None:
        config = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "auto.offset.reset": "earliest"}
        statistics = {"statistics.interval.ms": 5_000, "stats_cb": self._say}
        self._consumer = confluent_kafka.Consumer({**config, "enable.auto.commit": False, **statistics, **self.config})
        self._consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        while not self._leaving.is_set():
            found: list[Any] = self._consumer.consume(500, 0.1)
            messages = [message for message in found if message.error() is None]
            self.errors += [message.error() for message in found if message.error() is not None]
            pending = self._read([(m.partition(), m.offset(), m.value()) for m in messages])
            if pending:
                offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in pending.items()]
                try:
                    self._consumer.commit(offsets=offsets, asynchronous=False)
                except confluent_kafka.KafkaException as error:
                    self.refused.append(error)
                else:
                    self._member_id = self._consumer.memberid()
                    self._acknowledged(pending)
        self._consumer.close()

    def _say(self, statistics: str) -> None:
        self._statistics = statistics

    def _on_assign(self, _: Any, partitions: list[TopicPartition]) -> None:
        self._assign(partition.partition for partition in partitions)

    def _on_revoke(self, _: Any, partitions: list[TopicPartition]) -> None:
        self._revoke(partition.partition for partition in partitions)


class KafkaPythonMember(Member, kafka.ConsumerRebalanceListener):
    """kafka-python."""

    def identity(self) -> tuple[Any, ...]:
        generation = self._consumer._coordinator._generation
        return generation.member_id, generation.generation_id

    def _consume(self) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self.config,
        )
        self._consumer.subscribe([self.topic], listener=self)
        # A join that ends between two calls of poll() is forgotten (3.0.12), and a leader that joins again rebalances.
        self._consumer._coordinator.poll(timeout_ms=_JOIN_GROUP_MS)
        while not self._leaving.is_set():
            found = self._consumer.poll(100)
            pending = self._read([(r.partition, r.offset, r.value) for records in found.values() for r in records])
            if pending:
                offsets = {
                    kafka.TopicPartition(self.topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
                    for partition, offset in pending.items()
                }
                try:
                    self._consumer.commit(offsets)
                except KafkaError as error:
                    self.refused.append(error)
                else:
                    self._acknowledged(pending)
        self._consumer.close(autocommit=False)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._assign(partition.partition for partition in assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._revoke(partition.partition for partition in revoked)


class AiokafkaMember(Member, aiokafka.ConsumerRebalanceListener):
    """aiokafka."""

    def identity(self) -> tuple[Any, ...]:
        coordinator = self._consumer._coordinator
        return coordinator.member_id, coordinator.generation

    def _consume(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self.config,
        )
        self._consumer.subscribe([self.topic], listener=self)
        await self._consumer.start()
        while not self._leaving.is_set():
            found = await self._consumer.getmany(timeout_ms=100)
            pending = self._read([(r.partition, r.offset, r.value) for records in found.values() for r in records])
            if pending:
                offsets = {aiokafka.TopicPartition(self.topic, partition): at for partition, at in pending.items()}
                try:
                    await self._consumer.commit(offsets)
                except aiokafka.errors.KafkaError as error:
                    self.refused.append(error)
                else:
                    self._acknowledged(pending)
        await self._consumer.stop()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._assign(partition.partition for partition in assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._revoke(partition.partition for partition in revoked)


UNKNOWN_OFFSET = -1
"""The request failed, but a later one of the same partition succeeded, from which librdkafka concludes that the records
are in the log, too."""


class Producer:
    """An idempotent confluent-kafka producer that records what was acknowledged, and where."""

    def __init__(self, bootstrap: str, topic: str, **config: Any) -> None:
        self.topic = topic
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        """Value -> partition and offset, or UNKNOWN_OFFSET."""
        self.failed: list[Any] = []
        self.sent = 0
        self.gap = Gap()
        """Between two acknowledgements."""
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, **config}
        )

    def send(self, count: int, *, pause_s: float = 0.0) -> None:
        """Send that many more records, numbered from the first."""
        for _ in range(count):
            value = b"%d" % self.sent
            self._producer.produce(self.topic, value, key=value, on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(pause_s)

    def send_until(self, stop: threading.Event, pause_s: float = 0.001) -> None:
        """Send continuously, a record per ``pause_s`` or less."""
        while not stop.is_set():
            self.send(1, pause_s=pause_s)

    def flush(self, timeout_s: float = 60) -> None:
        """Wait until everything is acknowledged. Raises AssertionError when something was not."""
        assert self._producer.flush(timeout_s) == 0, "records without an answer"
        assert self.failed == []
        assert len(self.acknowledged) == self.sent

    def check(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        """Raise AssertionError unless these are the acknowledged records, each at its partition and offset."""
        found = {value: (partition, offset) for partition, offset, value in records}
        assert found.keys() == self.acknowledged.keys()
        wanted = {
            value: (partition, found[value][1] if offset == UNKNOWN_OFFSET else offset)
            for value, (partition, offset) in self.acknowledged.items()
        }
        assert found == wanted

    def drain(self) -> None:
        """Take the last acknowledgements; a record without one within message.timeout.ms fails."""
        self._producer.flush(30)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error)
            return
        offset = UNKNOWN_OFFSET if message.offset() is None else message.offset()
        self.acknowledged[message.value()] = (message.partition(), offset)
        self.gap.mark()


def committed_offsets(bootstrap: str, group: str, topic: str, partitions: int) -> Offsets:
    """Return the group's committed offsets, by OffsetFetch; partitions without a commit are omitted."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    requested = [TopicPartition(topic, partition) for partition in range(partitions)]
    found = consumer.committed(requested, 30)
    consumer.close()
    assert all(partition.error is None for partition in found), found
    return {partition.partition: partition.offset for partition in found if partition.offset >= 0}


def everything(bootstrap: str, topic: str, partitions: int, count: int = 0) -> list[tuple[int, int, bytes]]:
    """All records of a topic, by partition and offset; read without a group.

    ``count``: as many are there for certain. A log actor that was replaced may respond with fewer until it knows, as a
    Kafka broker may: its high watermark is that of its own last append.
    """
    to_the_end = {"auto.offset.reset": "error", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
    config = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **to_the_end}
    consumer = confluent_kafka.Consumer(config)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    records: list[tuple[int, int, bytes]] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + 60
    while len(at_end) < partitions or len(records) < count:
        assert time.monotonic() < deadline, f"ends of partitions {at_end}, {len(records)} records of {count}"
        found: list[Any] = consumer.consume(1000, 1.0)
        for message in found:
            if message.error() is None:
                records.append((message.partition(), message.offset(), message.value()))
            elif message.error().code() == KafkaErrorCode._PARTITION_EOF:
                at_end.add(message.partition())
            else:
                assert message.error().code() != KafkaErrorCode._AUTO_OFFSET_RESET, message.error()
    consumer.close()
    return sorted(records)
