"""Connections to the leaders of partitions, as Metadata names them.

Every gateway of Muster serves every partition, but a broker of Kafka only those that it leads.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import NoResponse, UnknownTopic
from muster.gateway.client.kafka.brokers import RETRIABLE, Brokers
from muster.gateway.client.kafka.refusals import Refused, check
from muster.gateway.client.kafka.requests import METADATA, of_topics

if TYPE_CHECKING:
    from muster.gateway.client.kafka.connection import Connection

TopicPartition = tuple[str, int]
"""Topic and partition."""
LATER = RETRIABLE | {
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.listener_not_found,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.offset_not_available,
    ErrorCode.network_exception,
}
"""Errors of a partition that may be gone once Metadata has been asked again."""
PATIENCE_S = 60.0
"""How long a partition may have no leader, or one that does not respond."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
_UNKNOWN_S = 5.0
"""How long a topic may be unknown: one that was just created is not known to every broker."""
T = TypeVar("T")


class Patience:
    """Time in which an attempt is repeated. Pauses grow from 50 ms to a second."""

    def __init__(self, total_s: float = PATIENCE_S) -> None:
        self._total_s = total_s
        self.renew()

    def renew(self) -> None:
        """Begin anew, after progress."""
        self._until_s = time.monotonic() + self._total_s
        self._pause_s = _MIN_PAUSE_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until_s

    def pause(self) -> None:
        """Wait before the next attempt."""
        time.sleep(self._pause_s * random.uniform(0.5, 1))  # noqa: S311 - so that many tasks do not come at once
        self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)


class Leaders:
    """Leaders of the partitions of a cluster. Use it in a ``with`` block, or close it; one thread at a time."""

    def __init__(self, brokers: Brokers, patience_s: float = PATIENCE_S) -> None:
        """Take ``brokers`` over, to request Metadata. ``patience_s``: time to wait for a leader that is missing."""
        self._brokers, self._patience_s = brokers, patience_s
        self._addresses: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, dict[int, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    def partitions(self, topic: str) -> list[int]:
        """Return the indexes of the topic's partitions, in order. Raises UnknownTopic, Refused or NoResponse."""
        if topic not in self._topics:
            self._describe(topic)
        return sorted(self._topics[topic])

    def connection(self, partition: TopicPartition) -> Connection:
        """Return the connection to the partition's leader. Raises OSError, UnknownTopic, Refused or NoResponse."""
        topic, index = partition
        if index not in self.partitions(topic):
            raise UnknownTopic(f"topic {topic} has no partition {index}")
        address = self._addresses.get(self._topics[topic][index])
        if address is None:
            raise ConnectionError(f"{topic}-{index} has no leader now")
        if address not in self._connections:
            self._connections[address] = self._brokers.connect_to(*address)
        return self._connections[address]

    def forget(self, topics: Iterable[str]) -> None:
        """Ask again who leads these topics' partitions, on new connections."""
        for topic in topics:
            self._topics.pop(topic, None)
        self._close_connections()

    def of_each(
        self,
        partitions: Iterable[TopicPartition],
        request: Callable[[Connection, list[TopicPartition]], Mapping[TopicPartition, T]],
    ) -> dict[TopicPartition, T]:
        """Return what ``request`` returns, by leader, for all partitions; repeat it for those that it leaves out.

        It raises OSError if a connection is lost. NoResponse is raised if partitions are left after the patience.
        """
        found: dict[TopicPartition, T] = {}
        left = set(partitions)
        patience = Patience(self._patience_s)
        while left:
            why = "not the leader"
            for connection, of_leader in self._by_leader(left).items():
                try:
                    found |= request(connection, sorted(of_leader))
                except OSError as error:
                    why = str(error)
            left -= found.keys()
            if left:
                if patience.is_over:
                    topic, index = min(left)
                    raise NoResponse(f"leader of {topic}-{index}", why)
                self.forget({topic for topic, _ in left})
                patience.pause()
        return found

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[Connection, list[TopicPartition]]:
        """Group the partitions; without those whose leader accepts no connection."""
        found: dict[Connection, list[TopicPartition]] = {}
        refusing: set[int] = set()
        for topic, index in partitions:
            if self._topics.get(topic, {}).get(index) in refusing:
                continue
            try:
                found.setdefault(self.connection((topic, index)), []).append((topic, index))
            except OSError:
                refusing.add(self._topics[topic][index])
        return found

    def _describe(self, topic: str) -> None:
        patience = Patience(_UNKNOWN_S)
        while True:
            body = of_topics([{"topic_id": None, "name": topic}])
            response = self._brokers.request(*METADATA, body, retriable=())
            (described,) = response.topics
            if described.error_code is ErrorCode.none:
                break
            if described.error_code not in RETRIABLE | {ErrorCode.unknown_topic_or_partition} or patience.is_over:
                raise _refusal(topic, described.error_code)
            patience.pause()
        self._addresses |= {each.node_id: (each.host, each.port) for each in response.brokers}
        self._topics[topic] = {each.partition_index: each.leader_id for each in described.partitions}

    def _close_connections(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        self._close_connections()
        self._brokers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refusal(topic: str, error: ErrorCode) -> Refused | UnknownTopic:
    if error is ErrorCode.unknown_topic_or_partition:
        return UnknownTopic(f"there is no topic {topic}; create it with Cluster.topic() or muster topics create")
    return Refused(f"topic {topic}", error, None)


def check_or_later(result: Any, what: str) -> bool:
    """Return whether the result has no error; False if it may have none later. Raises Refused."""
    if result.error_code in LATER:
        return False
    check(result, what)
    return True
