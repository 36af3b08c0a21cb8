"""Every config as DescribeConfigs shows it."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from actors.config.derived import OFFSETS_TOPIC_FIXED, offsets_topic_configs, topic_values
from actors.config.groups import GroupConfigs
from actors.config.properties import MusterConfig
from actors.config.topics import BY_UNIT, TopicConfigs, synonym_of
from actors.config.types import ConfigType


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs v1+ numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigRow(NamedTuple):
    """One config of a DescribeConfigs answer."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]
    """(name, value, source), the one that is used first."""
    type: ConfigType
    documentation: str
    read_only: bool


def describe_broker(config: MusterConfig) -> list[ConfigRow]:
    """Every property of a broker, read-only: Muster reads them when it starts."""
    return [_broker_row(config, name) for name in sorted(type(config).model_fields)]


def describe_topic(config: MusterConfig, topic_overrides: Mapping[str, str]) -> list[ConfigRow]:
    """Every config of a topic: what was set on the topic, else the broker's.

    Pydantic's ValidationError if the overrides were never checked.
    """
    values = topic_values(config, topic_overrides)
    return [_topic_row(config, name, values[name], topic_overrides) for name in sorted(TopicConfigs.model_fields)]


def describe_offsets_topic(config: MusterConfig) -> list[ConfigRow]:
    """Every config of ``__consumer_offsets``."""
    rows = describe_topic(config, offsets_topic_configs(config))
    return [row._replace(read_only=row.name in OFFSETS_TOPIC_FIXED) for row in rows]


def describe_group() -> list[ConfigRow]:
    """Every config of a group."""
    return [_group_row(name) for name in sorted(GroupConfigs.model_fields)]


def describe_client_metrics() -> list[ConfigRow]:
    """Every config of a subscription of KIP-714: Kafka's defaults, as no subscription can be made."""
    return [
        ConfigRow(name, value, ConfigSource.DEFAULT_CONFIG, (), kind, documentation, True)
        for name, value, kind, documentation in _CLIENT_METRICS
    ]


_NO_CLIENT_METRICS = "Clients send no metrics to Muster (KIP-714)."
_CLIENT_METRICS = (
    ("interval.ms", "300000", ConfigType.INT, _NO_CLIENT_METRICS),
    ("match", "", ConfigType.LIST, _NO_CLIENT_METRICS),
    ("metrics", "", ConfigType.LIST, _NO_CLIENT_METRICS),
)


def _group_row(name: str) -> ConfigRow:
    field = GroupConfigs.model_fields[name]
    alias, value, source = str(field.alias), _text(field.default), ConfigSource.DEFAULT_CONFIG
    behind = ((f"group.{alias}", value, source),)
    return ConfigRow(alias, value, source, behind, _type(field), field.description or "", False)


def _topic_row(config: MusterConfig, name: str, value: Any, overrides: Mapping[str, str]) -> ConfigRow:
    field = TopicConfigs.model_fields[name]
    alias = str(field.alias)
    behind = _broker_synonyms(config, field)
    if alias in overrides:
        behind = ((alias, _text(value), ConfigSource.DYNAMIC_TOPIC_CONFIG), *behind)
    source = behind[0][2] if behind else ConfigSource.DEFAULT_CONFIG
    return ConfigRow(alias, _text(value), source, behind, _type(field), field.description or "", False)


def _broker_row(config: MusterConfig, name: str) -> ConfigRow:
    field = type(config).model_fields[name]
    synonyms = _own_and_default(config, name)
    value, source = synonyms[0][1:]
    return ConfigRow(str(field.alias), value, source, synonyms, _type(field), field.description or "", True)


def _broker_synonyms(config: MusterConfig, field: FieldInfo) -> tuple[tuple[str, str | None, ConfigSource], ...]:
    match synonym_of(field):
        case None:
            return ()
        case str(synonym) if synonym in BY_UNIT:
            found = [entry for name in BY_UNIT[synonym] for entry in _own_and_default(config, name)]
            return tuple(entry for entry in found if entry[1] is not None)
        case synonym:
            return _own_and_default(config, synonym)


def _own_and_default(config: MusterConfig, name: str) -> tuple[tuple[str, str | None, ConfigSource], ...]:
    field = type(config).model_fields[name]
    alias = str(field.alias)
    default = (alias, _text(field.default), ConfigSource.DEFAULT_CONFIG)
    if name not in config.model_fields_set:
        return (default,)
    return ((alias, _text(getattr(config, name)), ConfigSource.STATIC_BROKER_CONFIG), default)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(field: FieldInfo) -> ConfigType:
    declared = [field.annotation, *field.metadata]
    if typing.get_origin(field.annotation) in (typing.Union, types.UnionType):
        declared += [part for choice in typing.get_args(field.annotation) for part in typing.get_args(choice)]
    return next((part for part in declared if isinstance(part, ConfigType)), ConfigType.STRING)
