"""What every actor knows of the cluster: one immutable snapshot, numbered, published by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    internal: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Only what was set on this topic; the broker's defaults are not in it."""


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

    @property
    def order(self) -> tuple[int, int]:
        """Newer snapshots compare greater, also across a restart of the controller."""
        return (self.controller_epoch, self.version)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic with that id, or None."""
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def log_of(self, topic: Topic, partition: int) -> int:
        """Index of the log actor that owns the partition."""
        return int(choose(f"{topic.topic_id}-{partition}", [str(index) for index in sorted(self.logs)]))

    def leader_of(self, topic: Topic, partition: int) -> Broker | None:
        """The gateway that Metadata names as leader: on the owner's node if there is one. None without gateways."""
        owner = (
            self.offsets.get(partition) if topic.name == OFFSETS_TOPIC else self.logs.get(self.log_of(topic, partition))
        )
        return self._near(f"{topic.topic_id}-{partition}", owner)

    def coordinator_of(self, offsets_partition: int) -> Broker | None:
        """The gateway that FindCoordinator names for groups of that partition."""
        return self._near(f"{OFFSETS_TOPIC}-{offsets_partition}", self.offsets.get(offsets_partition))

    def _near(self, key: str, owner: Endpoint | None) -> Broker | None:
        near = [broker for broker in self.brokers if owner is not None and broker.node_id == owner.node_id]
        candidates = {str(broker.id): broker for broker in near or self.brokers}
        return candidates[choose(key, list(candidates))] if candidates else None
