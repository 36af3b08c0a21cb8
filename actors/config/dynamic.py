"""Which properties can be changed while the cluster runs, and the configuration that results. As in KIP-226.

A property of the whole cluster is set on Kafka's default broker. A property of a gateway can also be set on that broker
alone, which takes precedence. Logs and groups belong to no gateway, so their properties cannot be set on one broker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

from muster.actors.config.overrides import is_dynamic
from muster.actors.config.properties import ConfigError, MusterConfig
from muster.placement.view import DynamicConfigs

log = logging.getLogger(__name__)

OF_A_BROKER = frozenset(
    {
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
    }
)
"""Properties that can be set for one gateway or for all."""

OF_THE_CLUSTER = frozenset(
    {
        "attribution.simple.ttl.ms",
        "auto.create.topics.enable",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "default.replication.factor",
        "delete.topic.enable",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.enable",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "max.replication.factor",
        "message.max.bytes",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.minutes",
        "offsets.topic.compression.codec",
        "offsets.topic.segment.bytes",
        "producer.id.expiration.ms",
        "rebalance.stuck.ms",
        "transaction.partition.verification.enable",
    }
)
"""Properties that can be set for all brokers only."""

DYNAMIC = OF_A_BROKER | OF_THE_CLUSTER


def is_dynamic_of_a_broker(name: str) -> bool:
    """Whether it can be set for one gateway or for all while the cluster runs; also properties of one listener."""
    return name in OF_A_BROKER or is_dynamic(name)


def altered(config: MusterConfig, properties: Mapping[str, str]) -> MusterConfig:
    """Return the configuration of the start, overridden by these properties.

    Raises ConfigError, which names invalid ones.
    """
    return MusterConfig.from_properties({**config.properties, **properties})


def in_force(config: MusterConfig, configs: DynamicConfigs, broker_id: int | None = None) -> MusterConfig:
    """Return the configuration in force: for logs and groups, or for a gateway.

    Stored properties that are invalid (possibly only since the cluster was started with others) are logged and left
    out.
    """
    properties = {name: value for name, value in configs.cluster.items() if name in DYNAMIC or is_dynamic(name)}
    if broker_id is not None:
        own = configs.brokers.get(broker_id, {})
        properties |= {name: value for name, value in own.items() if is_dynamic_of_a_broker(name)}
    return _in_force(Started(config), tuple(sorted(properties.items())))


class Started:
    """A configuration as a cache key: compared by identity, since it never changes and has many fields."""

    def __init__(self, config: MusterConfig) -> None:
        self.config = config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Started) and other.config is self.config

    def __hash__(self) -> int:
        return id(self.config)


@lru_cache(maxsize=16)
def _in_force(started: Started, properties: tuple[tuple[str, str], ...]) -> MusterConfig:
    try:
        return altered(started.config, dict(properties))
    except ConfigError:
        held: dict[str, str] = {}
        for name, value in properties:
            try:
                altered(started.config, held | {name: value})
            except ConfigError as error:
                log.warning("%s is left out: %s", name, error)
            else:
                held[name] = value
        return altered(started.config, held)
