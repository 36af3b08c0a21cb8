"""Every actor's knowledge of the cluster: an immutable, numbered snapshot, published by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from muster.placement.leaders import Leaders, Partitions, deal, replicas
from muster.placement.rendezvous import choose
from muster.placement.security.acls import Acls
from muster.placement.security.entities import Entity

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
UNDO_PREFIX = "__muster_undo."
"""Prefix of the groups that keep offsets replaced by ``muster groups reset-offsets``. They are not listed."""
OFFSETS, TRANSACTIONS = "offsets", "transactions"
COORDINATORS: Mapping[str, str] = MappingProxyType({OFFSETS_TOPIC: OFFSETS, TRANSACTIONS_TOPIC: TRANSACTIONS})
"""The kind of actors that own the partitions of each topic of coordinators; log actors own those of all others."""
_TOPICS = {kind: topic for topic, kind in COORDINATORS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of an actor's internal listener. A peer on the same node uses ``path`` (a Unix domain socket)."""

    node_id: str
    """Ray's node id, hex."""
    host: str
    port: int
    path: str
    secret: bytes = field(repr=False)
    """The cluster's secret (sent through Ray only); proves that a peer belongs to this cluster."""
    tls: bool = False
    """Whether peers on other nodes use TLS."""


class ConsoleAddress(NamedTuple):
    """Where browsers reach the console."""

    node_id: str
    """Ray's node id, hex."""
    url: str


class BrokerAddress(NamedTuple):
    """Where clients reach a gateway that come in on one of its listeners."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A gateway as Kafka clients see it."""

    id: int
    host: str
    """``host`` and ``port`` are what clients of its first listener see."""
    port: int
    node_id: str
    """Ray's node id, hex."""
    further: tuple[BrokerAddress, ...] = ()
    """Addresses for clients of its further listeners."""
    rack: str | None = None
    metrics_url: str | None = None
    """Its ``/metrics``; None before it serves HTTP."""
    leaves: bool = False
    """Whether it is about to stop: it leads and coordinates nothing, but is still one of the brokers."""

    def at(self, listener: str) -> BrokerAddress:
        """Return the address for clients of that listener."""
        found = (address for address in self.further if address.listener == listener)
        return next(found, BrokerAddress(listener, self.host, self.port))

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports of all listeners, in their order."""
        return ((self.host, self.port), *((address.host, address.port) for address in self.further))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int = 1
    """Requested and reported; unrelated to the number of copies: there is one, on storage.path."""
    internal: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Only what was set on this topic, without the broker's defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicConfigs:
    """Configs altered while the cluster runs, as text, other than those of topics (:attr:`Topic.config`)."""

    cluster: Mapping[str, str] = field(default_factory=dict)
    """For the whole cluster: Kafka's default for all brokers."""
    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Subscriptions to metrics of clients, by name (KIP-714)."""
    entities: Mapping[Entity, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """SCRAM credentials of users, and quotas; the keys and values are those in Kafka's ZooKeeper."""
    login_secret: bytes = field(default=b"", repr=False)
    """Decides what logins show of users that do not exist; the same for ever. Empty where no client has to log in."""
    acls: Acls = field(default_factory=Acls, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A snapshot. ``version`` increases by one with every change within one ``controller_epoch``."""

    cluster_id: str
    controller_epoch: int
    version: int
    brokers: tuple[Broker, ...]
    """Gateways that serve now, by id."""
    topics: Mapping[str, Topic]
    logs: Mapping[int, Endpoint | None]
    """Log actors by index; None while one is down. The indices never change while the cluster runs."""
    offsets: Mapping[int, Endpoint | None]
    """Active offsets partitions; None while the actor is down; absent if it was never started."""
    transactions: Mapping[int, Endpoint | None] = field(default_factory=dict)
    """Coordinators of the partitions of ``__transaction_state``, by partition."""
    configs: DynamicConfigs = field(default_factory=DynamicConfigs)
    leaders: Leaders = field(default_factory=dict)
    """Assigned by :meth:`with_leaders`."""
    console: ConsoleAddress | None = None
    """None while it does not serve, and in a cluster without one."""
    _found: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cached lookups: a view never changes, and every request needs the same ones."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (
            self.cluster_id,
            self.controller_epoch,
            self.version,
            self.brokers,
            self.topics,
            self.logs,
            self.offsets,
            self.transactions,
            self.configs,
            self.leaders,
            self.console,
        )

    @property
    def order(self) -> tuple[int, int]:
        """Newer snapshots compare greater, even across a restart of the controller."""
        return (self.controller_epoch, self.version)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with that id, or None."""
        by_id: dict[UUID, Topic] | None = self._found.get("topics")
        if by_id is None:
            by_id = self._found["topics"] = {topic.topic_id: topic for topic in self.topics.values()}
        return by_id.get(topic_id)

    def log_of(self, topic: Topic, partition: int) -> int:
        """Index of the log actor that owns the partition: round-robin, starting at an index derived from the topic id.

        Depends on nothing else that may change while the cluster runs: the owner of a log must not change by itself.
        """
        indices: list[int] | None = self._found.get("logs")
        if indices is None:
            indices = self._found["logs"] = sorted(self.logs)
        return indices[(topic.topic_id.int + partition) % len(indices)]

    def with_leaders(self, before: Leaders) -> ClusterView:
        """Return this view with the leaders that its gateways, topics and logs imply, close to ``before``."""
        gateways = {broker.id: broker.node_id for broker in self._staying}
        topics = [
            Partitions(topic_id=topic.topic_id, owners=self._owners(topic))
            for topic in self.topics.values()
            if topic.name not in COORDINATORS
        ]
        return replace(self, leaders=deal(gateways, topics, before))

    def _owners(self, topic: Topic) -> tuple[str | None, ...]:
        """Return the node of each partition's log; one tuple for all topics that are alike."""
        if not self.logs:
            return (None,) * topic.partitions
        key = ("owners", self.log_of(topic, 0), topic.partitions)
        if key not in self._found:
            actors = (self.logs[self.log_of(topic, partition)] for partition in range(topic.partitions))
            self._found[key] = tuple(actor.node_id if actor is not None else None for actor in actors)
        found: tuple[str | None, ...] = self._found[key]
        return found

    def leader_of(self, topic: Topic, partition: int) -> Broker | None:
        """Return the gateway that Metadata names as leader; of a coordinator's partition, as FindCoordinator does.

        None without gateways, and of a partition that the topic does not have: clients may name any.
        """
        if not 0 <= partition < topic.partitions:
            return None
        if topic.name in COORDINATORS:
            return self.coordinator_of(partition, COORDINATORS[topic.name])
        leaders = self.leaders.get(topic.topic_id, ())
        return self._broker(leaders[partition]) if partition < len(leaders) else None

    @property
    def controller_id(self) -> int:
        """The gateway that clients are told is the controller; -1 without gateways."""
        return min((broker.id for broker in self.brokers), default=-1)

    def replicas_of(self, topic: Topic, partition: int) -> list[int]:
        """Ids of the gateways that Metadata names as replicas: the leader, one of each other rack, then others.

        As many as the topic's replication factor or, if there are fewer, all that serve. Any of them serves the
        partition.
        """
        leader = self.leader_of(topic, partition)
        if leader is None:
            return []
        key = ("replicas", leader.id)
        if key not in self._found:
            self._found[key] = replicas(leader, self._staying)
        found: list[int] = self._found[key]
        return found[: topic.replication_factor]

    def replica_in(self, rack: str, topic: Topic, partition: int) -> int | None:
        """Id of the first of those replicas that is in the rack, the leader if possible; None if there is none."""
        ids = self.replicas_of(topic, partition)
        brokers = (broker for broker_id in ids if (broker := self._broker(broker_id)) is not None)
        return next((broker.id for broker in brokers if broker.rack == rack), None)

    def rack_of(self, broker_id: int) -> str | None:
        """Return the rack of a gateway that serves; None if it has none."""
        broker = self._broker(broker_id)
        return broker.rack if broker is not None else None

    def owners(self, kind: str) -> Mapping[int, Endpoint | None]:
        """Return the coordinators of that kind, OFFSETS or TRANSACTIONS, by partition."""
        return self.transactions if kind == TRANSACTIONS else self.offsets

    def coordinator_of(self, partition: int, kind: str = OFFSETS) -> Broker | None:
        """Return the gateway that FindCoordinator names for that partition: on its actor's node if there is one."""
        key = ("coordinator", kind, partition)
        if key not in self._found:
            self._found[key] = self._nearest(partition, kind)
        found: Broker | None = self._found[key]
        return found

    def _nearest(self, partition: int, kind: str) -> Broker | None:
        owner = self.owners(kind).get(partition)
        near = [broker for broker in self._staying if owner is not None and broker.node_id == owner.node_id]
        candidates = {str(broker.id): broker for broker in near or self._staying}
        key = f"{_TOPICS[kind]}-{partition}"
        return candidates[choose(key, list(candidates))] if candidates else None

    @property
    def _staying(self) -> tuple[Broker, ...]:
        """The brokers that do not leave; all, if all do."""
        return tuple(broker for broker in self.brokers if not broker.leaves) or self.brokers

    def _broker(self, broker_id: int) -> Broker | None:
        by_id: dict[int, Broker] | None = self._found.get("brokers")
        if by_id is None:
            by_id = self._found["brokers"] = {broker.id: broker for broker in self.brokers}
        return by_id.get(broker_id)


def _restore(
    cluster_id: str,
    controller_epoch: int,
    version: int,
    brokers: tuple[Broker, ...],
    topics: Mapping[str, Topic],
    logs: Mapping[int, Endpoint | None],
    offsets: Mapping[int, Endpoint | None],
    transactions: Mapping[int, Endpoint | None],
    configs: DynamicConfigs,
    leaders: Leaders,
    console: ConsoleAddress | None,
) -> ClusterView:
    """Unpickle a view without its cached lookups."""
    return ClusterView(
        cluster_id=cluster_id,
        controller_epoch=controller_epoch,
        version=version,
        brokers=brokers,
        topics=topics,
        logs=logs,
        offsets=offsets,
        transactions=transactions,
        configs=configs,
        leaders=leaders,
        console=console,
    )
