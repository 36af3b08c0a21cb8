"""Configuration: the properties of the cluster, and the configs of a topic."""

from muster.actors.config.derived import (
    group_config,
    log_config,
    offsets_log_config,
    topic_values,
    transaction_config,
    transactions_log_config,
)
from muster.actors.config.dynamic import DYNAMIC, in_force
from muster.actors.config.listeners import BadPlaceholder, Listener, Node
from muster.actors.config.properties import ConfigError, MusterConfig
from muster.actors.config.rows import (
    ConfigRow,
    ConfigSource,
    describe_broker,
    describe_client_metrics,
    describe_coordinator_topic,
    describe_default_broker,
    describe_group,
    describe_topic,
)
from muster.actors.config.topics import TOPIC_CONFIGS, topic_config_errors
from muster.actors.config.types import ConfigType

__all__ = [
    "DYNAMIC",
    "TOPIC_CONFIGS",
    "BadPlaceholder",
    "ConfigError",
    "ConfigRow",
    "ConfigSource",
    "ConfigType",
    "Listener",
    "MusterConfig",
    "Node",
    "describe_broker",
    "describe_client_metrics",
    "describe_coordinator_topic",
    "describe_default_broker",
    "describe_group",
    "describe_topic",
    "group_config",
    "in_force",
    "log_config",
    "offsets_log_config",
    "topic_config_errors",
    "topic_values",
    "transaction_config",
    "transactions_log_config",
]
