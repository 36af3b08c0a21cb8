"""What every actor knows of the cluster: one immutable snapshot, numbered, published by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from placement.rendezvous import choose

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where an actor's internal listener is. A peer on the same node takes ``path`` (a Unix domain socket)."""

    node_id: str
    """Ray's node id, hex."""
    host: str
    port: int
    path: str
    secret: bytes = field(repr=False)
    """The cluster's secret (travels by Ray only); proves a peer to be of this cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A gateway as Kafka clients see it."""

    id: int
    host: str
    port: int
    node_id: str
    """Ray's node id, hex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int = 1
    """As it was asked for and is told. It says nothing of how many copies there are: one, on storage.path."""
    internal: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Only what was set on this topic; the broker's defaults are not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicConfigs:
    """What was altered while the cluster runs, as text, beside the configs of topics (:attr:`Topic.config`)."""

    cluster: Mapping[str, str] = field(default_factory=dict)
    """Of the whole cluster: Kafka's default of all brokers."""
    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A snapshot. ``version`` grows by one with every change within one ``controller_epoch``."""

    cluster_id: str
    controller_epoch: int
    version: int
    brokers: tuple[Broker, ...]
    """Gateways that serve right now, by id."""
    topics: Mapping[str, Topic]
    logs: Mapping[int, Endpoint | None]
    """Log actors by index; None while one is down. The indices never change while the cluster runs."""
    offsets: Mapping[int, Endpoint | None]
    """Active offsets partitions; None while its actor is down; absent when it was never started."""
    configs: DynamicConfigs = field(default_factory=DynamicConfigs)
    _found: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was looked up before: a view never changes, and every request asks the same."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (
            self.cluster_id,
            self.controller_epoch,
            self.version,
            self.brokers,
            self.topics,
            self.logs,
            self.offsets,
            self.configs,
        )

    @property
    def order(self) -> tuple[int, int]:
        """Newer snapshots compare greater, also across a restart of the controller."""
        return (self.controller_epoch, self.version)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic with that id, or None."""
        by_id: dict[UUID, Topic] | None = self._found.get("topics")
        if by_id is None:
            by_id = self._found["topics"] = {topic.topic_id: topic for topic in self.topics.values()}
        return by_id.get(topic_id)

    def log_of(self, topic: Topic, partition: int) -> int:
        """Index of the log actor that owns the partition."""
        key = ("log", topic.topic_id, partition)
        if key not in self._found:
            names = [str(index) for index in sorted(self.logs)]
            self._found[key] = int(choose(f"{topic.topic_id}-{partition}", names))
        return int(self._found[key])

    def leader_of(self, topic: Topic, partition: int) -> Broker | None:
        """The gateway that Metadata names as leader: on the owner's node if there is one. None without gateways."""
        owner = (
            self.offsets.get(partition) if topic.name == OFFSETS_TOPIC else self.logs.get(self.log_of(topic, partition))
        )
        return self._near(f"{topic.topic_id}-{partition}", owner)

    def replicas_of(self, topic: Topic, partition: int) -> list[int]:
        """Ids of the gateways that Metadata names as replicas: the leader first, then those that follow by id.

        As many as the topic's replication factor says or, if there are not so many, all that serve. Any of them
        serves the partition.
        """
        leader = self.leader_of(topic, partition)
        if leader is None:
            return []
        ids = [broker.id for broker in self.brokers]
        first = ids.index(leader.id)
        return [*ids[first:], *ids[:first]][: topic.replication_factor]

    def coordinator_of(self, offsets_partition: int) -> Broker | None:
        """The gateway that FindCoordinator names for groups of that partition."""
        return self._near(f"{OFFSETS_TOPIC}-{offsets_partition}", self.offsets.get(offsets_partition))

    def _near(self, key: str, owner: Endpoint | None) -> Broker | None:
        if key not in self._found:
            self._found[key] = self._nearest(key, owner)
        found: Broker | None = self._found[key]
        return found

    def _nearest(self, key: str, owner: Endpoint | None) -> Broker | None:
        near = [broker for broker in self.brokers if owner is not None and broker.node_id == owner.node_id]
        candidates = {str(broker.id): broker for broker in near or self.brokers}
        return candidates[choose(key, list(candidates))] if candidates else None


def _restore(
    cluster_id: str,
    controller_epoch: int,
    version: int,
    brokers: tuple[Broker, ...],
    topics: Mapping[str, Topic],
    logs: Mapping[int, Endpoint | None],
    offsets: Mapping[int, Endpoint | None],
    configs: DynamicConfigs,
) -> ClusterView:
    """Unpickle a view without what was looked up in it."""
    return ClusterView(
        cluster_id=cluster_id,
        controller_epoch=controller_epoch,
        version=version,
        brokers=brokers,
        topics=topics,
        logs=logs,
        offsets=offsets,
        configs=configs,
    )
