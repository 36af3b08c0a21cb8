"""Configs of a topic, and every config as DescribeConfigs shows it."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from actors.config_types import (
    CleanupPolicy,
    Compression,
    ConfigType,
    Double,
    Int,
    Long,
    TimestampType,
    problems_of,
)

if TYPE_CHECKING:
    from actors.config import MusterConfig


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs v1+ numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


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


class TopicConfigs(BaseModel):
    """What can be set on a topic. ``synonym`` is the broker's property that stands in where it is not set."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "."))

    cleanup_policy: CleanupPolicy | None = Field(
        None, description="delete, compact, or both.", json_schema_extra={"synonym": "log_cleanup_policy"}
    )
    compression_type: Compression | None = Field(
        None,
        description="The producer's own compression is kept.",
        json_schema_extra={"synonym": "compression_type"},
    )
    delete_retention_ms: Long | None = Field(
        None,
        ge=0,
        description="For how long the cleaner keeps a tombstone that it has seen, in ms.",
        json_schema_extra={"synonym": "log_cleaner_delete_retention_ms"},
    )
    flush_messages: Long | None = Field(
        None,
        ge=1,
        description="After so many records the log is synced; 1: whatever is acknowledged has been.",
        json_schema_extra={"synonym": "log_flush_interval_messages"},
    )
    flush_ms: Long | None = Field(
        None,
        ge=0,
        description="How long a record may wait to be synced, in ms; only with flush.messages above 1.",
        json_schema_extra={"synonym": "log_flush_interval_ms"},
    )
    max_compaction_lag_ms: Long | None = Field(
        None,
        ge=1,
        description="How old a record may become before its log is cleaned whatever its dirty ratio is, in ms.",
        json_schema_extra={"synonym": "log_cleaner_max_compaction_lag_ms"},
    )
    max_message_bytes: Int | None = Field(
        None,
        ge=0,
        description="Largest record batch that is accepted, in bytes.",
        json_schema_extra={"synonym": "message_max_bytes"},
    )
    message_timestamp_type: TimestampType | None = Field(
        None,
        description="Whether a record's time is the producer's or the time of the append.",
        json_schema_extra={"synonym": "log_message_timestamp_type"},
    )
    min_cleanable_dirty_ratio: Double | None = Field(
        None,
        ge=0,
        le=1,
        description="Share of a log, by bytes, that has to be new before it is cleaned.",
        json_schema_extra={"synonym": "log_cleaner_min_cleanable_ratio"},
    )
    min_compaction_lag_ms: Long | None = Field(
        None,
        ge=0,
        description="How old a record has to be before it is cleaned, in ms.",
        json_schema_extra={"synonym": "log_cleaner_min_compaction_lag_ms"},
    )
    min_insync_replicas: Int | None = Field(
        None,
        ge=1,
        description="Stated only: there is one copy, as durable as storage.path.",
    )
    retention_bytes: Long | None = Field(
        None,
        ge=-1,
        description="Size at which a partition loses old segments, in bytes; -1: none.",
        json_schema_extra={"synonym": "log_retention_bytes"},
    )
    retention_ms: Long | None = Field(
        None,
        ge=-1,
        description="How long records are kept, in ms; -1: for ever.",
        json_schema_extra={"synonym": "log_retention_ms"},
    )
    segment_bytes: Int | None = Field(
        None,
        ge=14,
        description="Size of a log segment file, in bytes.",
        json_schema_extra={"synonym": "log_segment_bytes"},
    )
    segment_ms: Long | None = Field(
        None,
        ge=1,
        description="How old a segment may become before the next begins, in ms.",
        json_schema_extra={"synonym": "log_roll_ms"},
    )


_BY_UNIT = {
    "log_retention_ms": ("log_retention_ms", "log_retention_minutes", "log_retention_hours"),
    "log_roll_ms": ("log_roll_ms", "log_roll_hours"),
}
"""Broker properties that say the same in other units, the one that goes first first."""

TOPIC_CONFIGS: tuple[str, ...] = tuple(str(field.alias) for field in TopicConfigs.model_fields.values())
"""Names that can be set on a topic."""

TOPIC_CONFIGS_WITHOUT_EFFECT = frozenset(
    {
        "file.delete.delay.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "preallocate",
        "remote.storage.enable",
        "segment.index.bytes",
        "segment.jitter.ms",
        "unclean.leader.election.enable",
    }
)


def topic_config_errors(config: Mapping[str, str | None]) -> str | None:
    """Why CreateTopics must answer INVALID_CONFIG to these configs of a topic; None if they are good."""
    problems = [_unknown(name) for name in sorted(set(config) - set(TOPIC_CONFIGS))]
    problems += [f"{name} has no value" for name, value in config.items() if name in TOPIC_CONFIGS and value is None]
    try:
        TopicConfigs.model_validate({name: config[name] for name in TOPIC_CONFIGS if config.get(name) is not None})
    except ValidationError as error:
        problems += problems_of(error)
    return "; ".join(problems) or None


def _unknown(name: str) -> str:
    if name in TOPIC_CONFIGS_WITHOUT_EFFECT:
        return f"{name} has no effect in Muster; leave it out"
    nearest = difflib.get_close_matches(name, TOPIC_CONFIGS, n=1, cutoff=0.7)
    return f"Unknown topic config name: {name}" + (f" (did you mean {nearest[0]}?)" if nearest else "")


def topic_values(config: MusterConfig, topic_overrides: Mapping[str, str]) -> dict[str, Any]:
    """What holds for a topic, by field name (``retention_ms``, ...), typed: its own configs, else the broker's."""
    own = TopicConfigs.model_validate(dict(topic_overrides))
    return {
        name: getattr(own, name) if getattr(own, name) is not None else _broker_value(config, field)
        for name, field in TopicConfigs.model_fields.items()
    }


def broker_rows(config: MusterConfig) -> list[ConfigRow]:
    """Every property, read-only: Muster reads them when it starts."""
    return [_broker_row(config, name) for name in sorted(type(config).model_fields)]


def topic_rows(config: MusterConfig, topic_overrides: Mapping[str, str]) -> list[ConfigRow]:
    """Every config of a topic. Pydantic's ValidationError if the overrides were never checked."""
    values = topic_values(config, topic_overrides)
    return [_topic_row(config, name, values[name], topic_overrides) for name in sorted(TopicConfigs.model_fields)]


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


def _broker_value(config: MusterConfig, field: FieldInfo) -> Any:
    synonym = _synonym(field)
    if synonym is None:
        return 1
    if synonym in _BY_UNIT:
        return config.retention_ms if synonym == "log_retention_ms" else config.roll_ms
    return getattr(config, synonym)


def _broker_synonyms(config: MusterConfig, field: FieldInfo) -> tuple[tuple[str, str | None, ConfigSource], ...]:
    match _synonym(field):
        case None:
            return ()
        case str(synonym) if synonym in _BY_UNIT:
            found = [entry for name in _BY_UNIT[synonym] for entry in _own_and_default(config, name)]
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


def _synonym(field: FieldInfo) -> str | None:
    extra = field.json_schema_extra
    return str(extra["synonym"]) if isinstance(extra, dict) else None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(field: FieldInfo) -> ConfigType:
    declared = [field.annotation, *field.metadata]
    if typing.get_origin(field.annotation) in (typing.Union, types.UnionType):
        declared += [part for choice in typing.get_args(field.annotation) for part in typing.get_args(choice)]
    return next((part for part in declared if isinstance(part, ConfigType)), ConfigType.STRING)
