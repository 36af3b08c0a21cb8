"""Configs of a topic, as CreateTopics accepts them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from muster.actors.config.types import (
    CleanupPolicy,
    Compression,
    Double,
    Int,
    Long,
    TimestampType,
    problems_of,
)


class TopicConfigs(BaseModel):
    """Configs that can be set on a topic. ``synonym`` is the broker's property that applies where one is not set."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "."))

    cleanup_policy: CleanupPolicy | None = Field(
        None, description="delete, compact, or both.", json_schema_extra={"synonym": "log_cleanup_policy"}
    )
    compression_type: Compression | None = Field(
        None,
        description="Codec that records are stored in: gzip, snappy, lz4, zstd, uncompressed, or producer: as sent.",
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


BY_UNIT = {
    "log_retention_ms": ("log_retention_ms", "log_retention_minutes", "log_retention_hours"),
    "log_roll_ms": ("log_roll_ms", "log_roll_hours"),
}
"""Broker properties that are equivalent in other units, in order of precedence."""

TOPIC_CONFIGS: tuple[str, ...] = tuple(str(field.alias) for field in TopicConfigs.model_fields.values())
"""Names that can be set on a topic."""

TOPIC_CONFIGS_WITHOUT_EFFECT = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
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
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "segment.index.bytes",
        "segment.jitter.ms",
        "unclean.leader.election.enable",
    }
)


def topic_config_errors(config: Mapping[str, str | None]) -> str | None:
    """Why CreateTopics must refuse these configs of a topic with INVALID_CONFIG; None if they are valid."""
    problems = [_unknown(name) for name in sorted(set(config) - set(TOPIC_CONFIGS))]
    problems += [f"{name} has no value" for name, value in config.items() if name in TOPIC_CONFIGS and value is None]
    try:
        own = TopicConfigs.model_validate(
            {name: config[name] for name in TOPIC_CONFIGS if config.get(name) is not None}
        )
    except ValidationError as error:
        problems += problems_of(error)
    else:
        problems += _lags_that_leave_no_time(own)
    return "; ".join(problems) or None


def _lags_that_leave_no_time(config: TopicConfigs) -> list[str]:
    """The check of Kafka's LogConfig."""
    least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least is None or most is None or least <= most:
        return []
    return [f"max.compaction.lag.ms={most} must not be less than min.compaction.lag.ms={least}"]


def valid_topic_configs(stored: Mapping[str, str]) -> dict[str, str]:
    """The valid ones of the stored configs; another version or another program may have stored others."""
    return {name: value for name, value in stored.items() if topic_config_errors({name: value}) is None}


def _unknown(name: str) -> str:
    if name in TOPIC_CONFIGS_WITHOUT_EFFECT:
        return f"{name} has no effect in Muster; leave it out"
    nearest = difflib.get_close_matches(name, TOPIC_CONFIGS, n=1, cutoff=0.7)
    return f"Unknown topic config name: {name}" + (f" (did you mean {nearest[0]}?)" if nearest else "")


def synonym_of(field: FieldInfo) -> str | None:
    """The field of the broker's property that applies where a topic's config is not set; None if there is none."""
    extra = field.json_schema_extra
    return str(extra["synonym"]) if isinstance(extra, dict) else None
