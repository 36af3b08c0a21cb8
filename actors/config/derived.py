"""The configurations of parts of the cluster: of a log and of a group coordinator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic.fields import FieldInfo

from muster.actors.config.groups import own_configs
from muster.actors.config.kept import KeptProperties
from muster.actors.config.properties import MusterConfig
from muster.actors.config.topics import TopicConfigs, default_of, synonym_of, valid_topic_configs
from muster.placement.view import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from muster.actors.group.config import GroupConfig
    from muster.actors.log.config import LogConfig
    from muster.actors.transactions.config import TransactionConfig

_IN_MS = {"log_retention_ms": "retention_ms", "log_roll_ms": "roll_ms", "log_roll_jitter_ms": "roll_jitter_ms"}
"""Fields of :class:`MusterConfig`, in ms, for properties that have other units, too."""
_FIXED = {"cleanup.policy": "compact", "flush.messages": "1", "message.timestamp.type": "CreateTime"}
COORDINATOR_TOPICS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        OFFSETS_TOPIC: MappingProxyType({**_FIXED, "compression.type": "producer"}),
        TRANSACTIONS_TOPIC: MappingProxyType({**_FIXED, "compression.type": "uncompressed"}),
    }
)
"""Configs of the topics of coordinators that cannot be changed, since those rely on them."""


def group_config(config: MusterConfig, groups: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> GroupConfig:
    """Return the configuration of the group coordinator. ``groups``: overrides of single groups."""
    from muster.actors.group.config import GroupConfig

    values = _known_to(GroupConfig, dict(config))
    lists = ("group_coordinator_rebalance_protocols", "group_consumer_assignors")
    values["own"] = own_configs(groups, dict(config))
    return GroupConfig(**values | {name: tuple(values[name].split(",")) for name in lists})


def transaction_config(config: MusterConfig) -> TransactionConfig:
    """Return the configuration of the transaction coordinator."""
    from muster.actors.transactions.config import TransactionConfig

    return TransactionConfig(**_known_to(TransactionConfig, dict(config)))


def log_config(config: MusterConfig, topic_overrides: Mapping[str, str] = MappingProxyType({})) -> LogConfig:
    """Return the configuration of a topic's log; invalid ``topic_overrides`` are left out."""
    from muster.actors.log.config import LogConfig

    return LogConfig(**_known_to(LogConfig, dict(config) | topic_values(config, topic_overrides)))


def offsets_log_config(config: MusterConfig, topic_overrides: Mapping[str, str] = MappingProxyType({})) -> LogConfig:
    """Return the configuration of the log of a ``__consumer_offsets`` partition, with the topic's overrides."""
    return dataclasses.replace(
        log_config(config, coordinator_topic_configs(OFFSETS_TOPIC, config, topic_overrides)),
        own_codec=config.offsets_topic_compression_codec,
        load_buffer_bytes=config.offsets_load_buffer_size,
    )


def transactions_log_config(
    config: MusterConfig, topic_overrides: Mapping[str, str] = MappingProxyType({})
) -> LogConfig:
    """Return the configuration of the log of a ``__transaction_state`` partition, with the topic's overrides."""
    return dataclasses.replace(
        log_config(config, coordinator_topic_configs(TRANSACTIONS_TOPIC, config, topic_overrides)),
        load_buffer_bytes=config.transaction_state_log_load_buffer_size,
    )


def coordinator_topic_configs(topic: str, config: MusterConfig, topic_overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a topic of coordinators, whatever the defaults of topics are."""
    own = valid_topic_configs(topic_overrides)
    segment_bytes = {
        OFFSETS_TOPIC: config.offsets_topic_segment_bytes,
        TRANSACTIONS_TOPIC: config.transaction_state_log_segment_bytes,
    }
    return {"segment.bytes": str(segment_bytes[topic]), **own, **COORDINATOR_TOPICS[topic]}


def topic_values(config: MusterConfig, topic_overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return a topic's typed values by field name (``retention_ms``, ...): its own where valid, else the broker's.

    Where the broker's property is one of :class:`KeptProperties`, its default.
    """
    own = TopicConfigs.model_validate(valid_topic_configs(topic_overrides))
    return {
        name: getattr(own, name) if getattr(own, name) is not None else _broker_value(config, field)
        for name, field in TopicConfigs.model_fields.items()
    }


def _broker_value(config: MusterConfig, field: FieldInfo) -> Any:
    synonym = synonym_of(field)
    if synonym is None:
        return default_of(field)
    if synonym in KeptProperties.model_fields:
        return KeptProperties.model_fields[synonym].default
    return getattr(config, _IN_MS.get(synonym, synonym))


def _known_to(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: values[field.name] for field in dataclasses.fields(kind) if field.name in values}
