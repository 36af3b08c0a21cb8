"""The layout of ZooKeeper's nodes and their content: Kafka's paths and JSON, with a few additional fields.

Kafka's source: ``kafka.zk.ZkData`` (3.x). Our additions are JSON fields that Kafka's readers ignore: ``node_id`` of a
broker, ``internal`` and ``replication_factor`` of a topic, ``owner`` of a partition.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from muster.placement.host_port import host_port
from muster.placement.view import Topic

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
"""For group configs, as in Kafka 4, which no longer has ZooKeeper."""
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
"""For subscriptions to client metrics (KIP-714), as in Kafka 4."""
DEFAULT_BROKER = "<default>"
"""Represents all brokers."""
CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CLIENT_GROUP_ID = "/client_group_id"
CLIENT_GROUP_FENCES = "/client_group_fences"
"""Our own: nodes whose versions show that something was created there (muster.placement.mapping.writes)."""
ACTOR_EPOCHS = "/actor_epochs"
"""Our own: a child for each actor that fences its predecessors by its own epoch."""
DRAINED_NODES = "/drained_nodes"
"""Our own: a child for each Ray node that must not have actors, named by its id."""

NO_LEADER = -1
NO_EPOCH = -1


class Malformed(ValueError):
    """The content of a node does not match its type."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def topic_config_path(topic: str) -> str:
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker: str) -> str:
    """``broker`` is an id or DEFAULT_BROKER."""
    return f"{BROKER_CONFIGS}/{broker}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def actor_epoch_path(name: str) -> str:
    return f"{ACTOR_EPOCHS}/{name}"


def drained_node_path(node_id: str) -> str:
    return f"{DRAINED_NODES}/{node_id}"


class BrokerEndpoint(NamedTuple):
    """The address that is advertised for one listener."""

    listener: str
    protocol: str
    """Kafka's name of a security protocol."""
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """``/brokers/ids/<id>``, ephemeral: a gateway as Kafka's tools see a broker. Kafka's JSON version 5."""

    endpoints: tuple[BrokerEndpoint, ...]
    node_id: str
    """Ray's node id, hex."""
    timestamp_ms: int
    rack: str | None = None

    def encode(self) -> bytes:
        """Encode like Kafka: ``host`` and ``port`` are those of the first endpoint without security, or null and -1."""
        rack = {} if self.rack is None else {"rack": self.rack}
        plain = next((each for each in self.endpoints if each.protocol == "PLAINTEXT"), None)
        return _dump(
            {
                "version": 5,
                "host": plain.host if plain else None,
                "port": plain.port if plain else -1,
                "endpoints": [f"{each.listener}://{host_port(each.host, each.port)}" for each in self.endpoints],
                "listener_security_protocol_map": {each.listener: each.protocol for each in self.endpoints},
                "jmx_port": -1,
                "features": {},
                "timestamp": str(self.timestamp_ms),
                "node_id": self.node_id,
                **rack,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> BrokerNode:
        """Decode a broker. Raises Malformed."""
        fields = _load(data, "broker")
        try:
            protocols = fields["listener_security_protocol_map"]
            return cls(
                endpoints=tuple(_broker_endpoint(text, protocols) for text in fields["endpoints"]),
                node_id=str(fields.get("node_id", "")),
                timestamp_ms=int(fields["timestamp"]),
                rack=fields.get("rack"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Malformed(f"not a broker: {data!r}") from error


def _broker_endpoint(text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return BrokerEndpoint(listener, str(protocols[listener]), host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """``/brokers/topics/<topic>/partitions/<p>/state``: leader and leader epoch. Kafka's JSON version 1."""

    leader: int = NO_LEADER
    """Broker id. No broker holds our partitions; their actor does (``owner``)."""
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    controller_epoch: int = 0
    owner: str = ""
    """The name that the owner of ``leader_epoch`` chose for itself."""

    def encode(self) -> bytes:
        return _dump(
            {
                "version": 1,
                "leader": self.leader,
                "leader_epoch": self.leader_epoch,
                "isr": list(self.isr),
                "controller_epoch": self.controller_epoch,
                "owner": self.owner,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> PartitionState:
        """Decode a partition state. Raises Malformed."""
        fields = _load(data, "partition state")
        try:
            return cls(
                leader=int(fields["leader"]),
                leader_epoch=int(fields["leader_epoch"]),
                isr=tuple(int(broker) for broker in fields["isr"]),
                controller_epoch=int(fields["controller_epoch"]),
                owner=str(fields.get("owner", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"not a partition state: {data!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerNode:
    """``/controller``, ephemeral: the current controller. Kafka's JSON version 1."""

    broker_id: int
    timestamp_ms: int
    node_id: str = field(default="")
    """Ray's node id, hex."""

    def encode(self) -> bytes:
        return _dump(
            {"version": 1, "brokerid": self.broker_id, "timestamp": str(self.timestamp_ms), "node_id": self.node_id}
        )

    @classmethod
    def decode(cls, data: bytes) -> ControllerNode:
        """Decode a controller. Raises Malformed."""
        fields = _load(data, "controller")
        try:
            return cls(
                broker_id=int(fields["brokerid"]),
                timestamp_ms=int(fields["timestamp"]),
                node_id=str(fields.get("node_id", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"not a controller: {data!r}") from error


def encode_topic(topic: Topic) -> bytes:
    """``/brokers/topics/<topic>``, Kafka's JSON version 3. No partition lists replicas: the log is shared storage."""
    return _dump(
        {
            "version": 3,
            "topic_id": encode_topic_id(topic.topic_id),
            "partitions": {str(partition): [] for partition in range(topic.partitions)},
            "adding_replicas": {},
            "removing_replicas": {},
            "internal": topic.internal,
            "replication_factor": topic.replication_factor,
        }
    )


def decode_topic(name: str, data: bytes, config: Mapping[str, str]) -> Topic:
    """Return the topic of that name. Raises Malformed if it is no topic, or has no topic id (Kafka before 2.8)."""
    fields = _load(data, "topic")
    try:
        return Topic(
            name=name,
            topic_id=decode_topic_id(fields["topic_id"]),
            partitions=len(fields["partitions"]),
            internal=bool(fields.get("internal", False)),
            replication_factor=int(fields.get("replication_factor", 1)),
            config=dict(config),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"not a topic: {data!r}") from error


def encode_topic_id(topic_id: UUID) -> str:
    """Encode like Kafka prints ids: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_topic_id(text: str) -> UUID:
    """Decode a topic id. Raises ValueError."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def encode_config(config: Mapping[str, str]) -> bytes:
    """``/config/topics/<topic>`` and similar nodes, Kafka's JSON version 1."""
    return _dump({"version": 1, "config": dict(sorted(config.items()))})


def encode_group_config(group: str, config: Mapping[str, str]) -> bytes:
    """``/config/groups/<group>``: the same, plus the group's name, which the node's name does not always hold."""
    return _dump({"version": 1, "config": dict(sorted(config.items())), "group": group})


def encode_client_metrics_config(subscription: str, config: Mapping[str, str]) -> bytes:
    """``/config/client-metrics/<subscription>``: likewise, plus the subscription's name."""
    return _dump({"version": 1, "config": dict(sorted(config.items())), "subscription": subscription})


def decode_config(data: bytes) -> dict[str, str]:
    """Decode a configuration. Raises Malformed."""
    fields = _load(data, "configuration")
    config = fields.get("config")
    if not isinstance(config, dict):
        raise Malformed(f"not a configuration: {data!r}")
    return {str(name): str(value) for name, value in config.items()}


def decode_group(data: bytes) -> str:
    """Return the group that the configuration belongs to. Raises Malformed if it is not a group's."""
    group = _load(data, "configuration of a group").get("group")
    if not isinstance(group, str):
        raise Malformed(f"not a configuration of a group: {data!r}")
    return group


def decode_subscription(data: bytes) -> str:
    """Return the client metrics subscription that the configuration belongs to. Raises Malformed if it is not one's."""
    subscription = _load(data, "configuration of client metrics").get("subscription")
    if not isinstance(subscription, str):
        raise Malformed(f"not a configuration of client metrics: {data!r}")
    return subscription


def encode_drained_node(timestamp_ms: int) -> bytes:
    """``/drained_nodes/<node id>``: since when it is drained. JSON version 1."""
    return _dump({"version": 1, "timestamp": str(timestamp_ms)})


def encode_cluster_id(cluster_id: str) -> bytes:
    """``/cluster/id``: the cluster whose nodes these are. Kafka's JSON version 1."""
    return _dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Decode a cluster id. Raises Malformed."""
    found = _load(data, "cluster id").get("id")
    if not isinstance(found, str):
        raise Malformed(f"not a cluster id: {data!r}")
    return found


def encode_producer_id_block(block: range, broker_id: int) -> bytes:
    """``/latest_producer_id_block``: the ids handed out last. Kafka's JSON version 1."""
    return _dump({"version": 1, "broker": broker_id, "block_start": str(block.start), "block_end": str(block.stop - 1)})


def decode_producer_id_block(data: bytes) -> range:
    """Decode a block of producer ids. Raises Malformed."""
    fields = _load(data, "block of producer ids")
    try:
        return range(int(fields["block_start"]), int(fields["block_end"]) + 1)
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"not a block of producer ids: {data!r}") from error


def _dump(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _load(data: bytes, kind: str) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise Malformed(f"not a {kind}: {data!r}") from error
    if not isinstance(fields, dict):
        raise Malformed(f"not a {kind}: {data!r}")
    return fields
