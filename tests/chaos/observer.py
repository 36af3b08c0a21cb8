"""Observes from outside: the groups' committed offsets, their assignments, and at the end the logs themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError

from tests.chaos.journal import Journal, now_s
from tests.chaos.payload import name_of

_REQUEST_TIMEOUT_S = 8.0
_EVERY_S = 1.0
_CREATE_S = 60.0
_QUIET = {"log_level": 0, "socket.timeout.ms": 8_000, "reconnect.backoff.max.ms": 1_000}


class Observer(threading.Thread):
    """Fetches the offsets of all groups, round after round, until :meth:`stop`."""

    def __init__(
        self, bootstrap: str, topics: Mapping[str, int], groups: Mapping[str, tuple[str, ...]], journal: Journal
    ):
        super().__init__(name="observer", daemon=True)
        self._servers, self._topics, self._groups, self._journal = bootstrap, topics, groups, journal
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
        self._consumers = {
            group: confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, **_QUIET})
            for group in groups
        }
        self._stopping = threading.Event()

    def create_topics(self, config: Mapping[str, str]) -> None:
        """Create the topics. Raises KafkaException if they cannot be created."""
        wanted = [NewTopic(topic, count, config=dict(config)) for topic, count in self._topics.items()]
        for made in self._admin.create_topics(wanted).values():
            made.result(_CREATE_S)

    def run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            for group in self._groups:
                with suppress(KafkaException):
                    self.fetch_offsets(group)

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def fetch_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the group's committed offsets, -1 for none; also written to the journal. Raises KafkaException."""
        partitions = [TopicPartition(topic, n) for topic in self._groups[group] for n in range(self._topics[topic])]
        begin_s = now_s()
        found = self._consumers[group].committed(partitions, _REQUEST_TIMEOUT_S)
        offsets = {(p.topic, p.partition): max(-1, p.offset) for p in found if p.error is None}
        rows = [(topic, number, offset) for (topic, number), offset in offsets.items()]
        self._journal.write("fetched", group=group, begin=begin_s, offsets=rows)
        return offsets

    def has_committed(self, group: str) -> bool:
        """Whether the group has committed an offset after the first record of a partition."""
        with suppress(KafkaException):
            return any(offset > 0 for offset in self.fetch_offsets(group).values())
        return False

    def has_everything(self, group: str, final: Mapping[tuple[str, int], int]) -> bool:
        """Whether the group has committed the ends of all its partitions."""
        with suppress(KafkaException):
            offsets = self.fetch_offsets(group)
            return all(max(0, offset) >= final[place] for place, offset in offsets.items()) and len(offsets) > 0
        return False

    def ends(self) -> dict[tuple[str, int], int]:
        """Return the end offset of every partition. Raises KafkaException."""
        consumer = next(iter(self._consumers.values()))
        places = [(topic, number) for topic, count in self._topics.items() for number in range(count)]
        return {
            place: consumer.get_watermark_offsets(TopicPartition(*place), _REQUEST_TIMEOUT_S)[1] for place in places
        }

    def read_logs(self, within_s: float) -> bool:
        """Write all committed records of the partitions to the journal; return whether that finished in time."""
        places = {(topic, number) for topic, count in self._topics.items() for number in range(count)}
        for records in self._read(places, within_s):
            for (topic, number), rows in records.items():
                self._journal.write("log", topic=topic, partition=number, records=rows)
        return not places

    def visible_ends(self, topics: Iterable[str], within_s: float) -> dict[tuple[str, int], int]:
        """Return the offset after the last committed record of each partition.

        Markers may follow, which no consumer sees.
        """
        places = {(topic, number) for topic in topics for number in range(self._topics[topic])}
        ends = dict.fromkeys(places, 0)
        for records in self._read(places, within_s):
            ends |= {place: rows[-1][0] + 1 for place, rows in records.items()}
        return ends

    def compare_ends(self, within_s: float) -> None:
        """Write the end of each partition to the journal, and where readers of committed records end.

        The two are the same, or become so in time, unless a transaction stays open.
        """
        config = {"bootstrap.servers": self._servers, "group.id": "final-reader", **_QUIET}
        plain = confluent_kafka.Consumer({**config, "isolation.level": "read_uncommitted"})
        deadline_s = time.monotonic() + within_s
        found: dict[tuple[str, int], tuple[int, int]] = {}
        while time.monotonic() < deadline_s:
            with suppress(KafkaException):
                ends = {
                    place: plain.get_watermark_offsets(TopicPartition(*place), _REQUEST_TIMEOUT_S)[1]
                    for place in self.ends()
                }
                found = {place: (stable, ends[place]) for place, stable in self.ends().items()}
                if all(stable == end for stable, end in found.values()):
                    break
            time.sleep(_EVERY_S)
        plain.close()
        self._journal.write("ends", ends=[(*place, *both) for place, both in sorted(found.items())])

    def _read(
        self, left: set[tuple[str, int]], within_s: float
    ) -> Iterator[dict[tuple[str, int], list[tuple[int, str]]]]:
        """Yield committed records by partition, piece by piece. Removes the partitions from ``left`` that are read."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "final-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                **_QUIET,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for topic, number in left])
        deadline_s = time.monotonic() + within_s
        while left and time.monotonic() < deadline_s:
            records: dict[tuple[str, int], list[tuple[int, str]]] = {}
            found: list[Any] = consumer.consume(1000, 1.0)
            for message in found:
                place = (message.topic(), message.partition())
                if message.error() is None:
                    records.setdefault(place, []).append((message.offset(), name_of(message.value())))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(place)
            yield records
        consumer.close()

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


class Describer(threading.Thread):
    """Describes the assignments of all groups, round after round.

    With kafka-python: librdkafka's admin client aborts the process when a connection is lost at the wrong moment
    (confluentinc/librdkafka issue 4605).
    """

    def __init__(self, bootstrap: str, groups: Iterable[str], journal: Journal) -> None:
        super().__init__(name="describer", daemon=True)
        self._servers, self._groups, self._journal = bootstrap.split(","), list(groups), journal
        self._stopping = threading.Event()

    def run(self) -> None:
        admin: Any = None
        while not self._stopping.wait(_EVERY_S):
            try:
                admin = admin or KafkaAdminClient(
                    bootstrap_servers=self._servers, request_timeout_ms=8_000, reconnect_backoff_max_ms=1_000
                )
                for group in self._groups:
                    self._record(group, admin.describe_groups([group])[group])
            except (KafkaPythonError, OSError):
                continue  # the next round tries again

    def stop(self) -> None:
        """Stop without waiting: it may be in a slow call."""
        self._stopping.set()

    def _record(self, group: str, found: dict[str, Any]) -> None:
        if found["error"] is not None or found["group_state"] != "Stable":
            return
        members = {member["member_id"]: _places(member["member_assignment"]) for member in found["members"]}
        self._journal.write("described", group=group, members=members)


def _places(assignment: Any) -> list[tuple[str, int]]:
    """None yet: no partitions."""
    given = assignment["assigned_partitions"] if assignment else []
    return sorted((topic["topic"], number) for topic in given for number in topic["partitions"])
