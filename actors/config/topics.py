"""Configs of a topic, as CreateTopics accepts them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from muster.actors.config.kept import LIMIT_OF_BATCHES, MAX_ARRAY_BYTES
from muster.actors.config.types import (
    Bool,
    CleanupPolicy,
    Compression,
    ConfigType,
    Double,
    GzipLevel,
    Int,
    Long,
    ThrottledReplicas,
    TimestampType,
    kafka_problems_of,
    type_of,
)


class TopicConfigs(BaseModel):
    """Every config of a topic that Kafka 4 has, in its bounds.

    ``synonym`` is the broker's property that applies where one is not set, of ``MusterConfig`` or ``KeptProperties``;
    ``default`` is for those that have none. Those without an effect say so first in their description: they are kept
    and shown, since programs that were written for Kafka set them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "."))

    cleanup_policy: CleanupPolicy | None = Field(
        None,
        description="delete, compact, or both; empty: records are kept forever, except for DeleteRecords.",
        json_schema_extra={"synonym": "log_cleanup_policy"},
    )
    compression_gzip_level: GzipLevel | None = Field(
        None,
        description="Level at which batches are compressed with compression.type=gzip: 1 to 9; -1: zlib's default.",
        json_schema_extra={"synonym": "compression_gzip_level"},
    )
    compression_lz4_level: Int | None = Field(
        None,
        ge=1,
        le=17,
        description="Level at which batches are compressed with compression.type=lz4: 1 to 17. As in Kafka, 9 is the "
        "fastest; of the others, higher ones compress more, up to 12.",
        json_schema_extra={"synonym": "compression_lz4_level"},
    )
    compression_type: Compression | None = Field(
        None,
        description="Codec in which records are stored: gzip, snappy, lz4, zstd, uncompressed, or producer: as sent.",
        json_schema_extra={"synonym": "compression_type"},
    )
    compression_zstd_level: Int | None = Field(
        None,
        ge=-131_072,
        le=22,
        description="Level at which batches are compressed with compression.type=zstd: up to 22; negative ones are "
        "faster.",
        json_schema_extra={"synonym": "compression_zstd_level"},
    )
    delete_retention_ms: Long | None = Field(
        None,
        ge=0,
        description="How long the cleaner keeps a tombstone that it has seen, in ms.",
        json_schema_extra={"synonym": "log_cleaner_delete_retention_ms"},
    )
    errors_deadletterqueue_group_enable: Bool | None = Field(
        None,
        description="No effect: there are no share groups.",
        json_schema_extra={"default": "false"},
    )
    file_delete_delay_ms: Long | None = Field(
        None,
        ge=0,
        description="No effect: files are removed at once; whoever is reading one can go on.",
        json_schema_extra={"synonym": "log_segment_delete_delay_ms"},
    )
    flush_messages: Long | None = Field(
        None,
        ge=1,
        description="Number of records after which the log is synced. 1: every acknowledged record is synced.",
        json_schema_extra={"synonym": "log_flush_interval_messages"},
    )
    flush_ms: Long | None = Field(
        None,
        ge=0,
        description="Maximum time before a record is synced, in ms; only with flush.messages above 1.",
        json_schema_extra={"synonym": "log_flush_interval_ms"},
    )
    follower_replication_throttled_replicas: ThrottledReplicas | None = Field(
        None,
        description="No effect: there is one copy, so nothing is replicated.",
        json_schema_extra={"default": ""},
    )
    index_interval_bytes: Int | None = Field(
        None,
        ge=0,
        description="Bytes of a segment between two entries of its index.",
        json_schema_extra={"synonym": "log_index_interval_bytes"},
    )
    leader_replication_throttled_replicas: ThrottledReplicas | None = Field(
        None,
        description="No effect: there is one copy, so nothing is replicated.",
        json_schema_extra={"default": ""},
    )
    local_retention_bytes: Long | None = Field(
        None,
        ge=-2,
        description="No effect: there is no tiered storage.",
        json_schema_extra={"synonym": "log_local_retention_bytes"},
    )
    local_retention_ms: Long | None = Field(
        None,
        ge=-2,
        description="No effect: there is no tiered storage.",
        json_schema_extra={"synonym": "log_local_retention_ms"},
    )
    max_compaction_lag_ms: Long | None = Field(
        None,
        ge=1,
        description="Age of a record after which its log is cleaned whatever its dirty ratio, in ms.",
        json_schema_extra={"synonym": "log_cleaner_max_compaction_lag_ms"},
    )
    max_decompressed_message_bytes: Int | None = Field(
        None,
        ge=1,
        le=MAX_ARRAY_BYTES,
        description=f"No effect: {LIMIT_OF_BATCHES}.",
        json_schema_extra={"synonym": "max_decompressed_message_bytes"},
    )
    max_message_bytes: Int | None = Field(
        None,
        ge=0,
        description="Maximum size of an accepted record batch, in bytes.",
        json_schema_extra={"synonym": "message_max_bytes"},
    )
    message_timestamp_after_max_ms: Long | None = Field(
        None,
        ge=0,
        description="How far a record's CreateTime may be ahead of the clock when it is produced, in ms.",
        json_schema_extra={"synonym": "log_message_timestamp_after_max_ms"},
    )
    message_timestamp_before_max_ms: Long | None = Field(
        None,
        ge=0,
        description="How old a record's CreateTime may be when it is produced, in ms.",
        json_schema_extra={"synonym": "log_message_timestamp_before_max_ms"},
    )
    message_timestamp_type: TimestampType | None = Field(
        None,
        description="Whether a record's timestamp is the producer's or the time of the append.",
        json_schema_extra={"synonym": "log_message_timestamp_type"},
    )
    min_cleanable_dirty_ratio: Double | None = Field(
        None,
        ge=0,
        le=1,
        description="Minimum share of a log, by bytes, that must be new before it is cleaned.",
        json_schema_extra={"synonym": "log_cleaner_min_cleanable_ratio"},
    )
    min_compaction_lag_ms: Long | None = Field(
        None,
        ge=0,
        description="Minimum age of a record before it is cleaned, in ms.",
        json_schema_extra={"synonym": "log_cleaner_min_compaction_lag_ms"},
    )
    min_insync_replicas: Int | None = Field(
        None,
        ge=1,
        description="No effect: there is one copy, as durable as storage.path.",
        json_schema_extra={"synonym": "min_insync_replicas"},
    )
    preallocate: Bool | None = Field(
        None,
        description="No effect: a segment file grows as it is written.",
        json_schema_extra={"synonym": "log_preallocate"},
    )
    remote_copy_lag_bytes: Long | None = Field(
        None,
        ge=-1,
        description="No effect: there is no tiered storage.",
        json_schema_extra={"synonym": "log_remote_copy_lag_bytes"},
    )
    remote_copy_lag_ms: Long | None = Field(
        None,
        ge=-1,
        description="No effect: there is no tiered storage.",
        json_schema_extra={"synonym": "log_remote_copy_lag_ms"},
    )
    remote_log_copy_disable: Bool | None = Field(
        None,
        description="No effect: there is no tiered storage.",
        json_schema_extra={"default": "false"},
    )
    remote_log_delete_on_disable: Bool | None = Field(
        None,
        description="No effect: there is no tiered storage.",
        json_schema_extra={"default": "false"},
    )
    remote_storage_enable: Bool | None = Field(
        None,
        description="Only false: there is no tiered storage.",
        json_schema_extra={"default": "false"},
    )
    retention_bytes: Long | None = Field(
        None,
        description="Size above which a partition loses old segments, in bytes; negative: no limit.",
        json_schema_extra={"synonym": "log_retention_bytes"},
    )
    retention_ms: Long | None = Field(
        None,
        ge=-1,
        description="How long records are kept, in ms; -1: forever.",
        json_schema_extra={"synonym": "log_retention_ms"},
    )
    segment_bytes: Int | None = Field(
        None,
        ge=14,
        description="Size of a log segment file, in bytes.",
        json_schema_extra={"synonym": "log_segment_bytes"},
    )
    segment_index_bytes: Int | None = Field(
        None,
        ge=4,
        description="No effect: an index is as large as its segment needs.",
        json_schema_extra={"synonym": "log_index_size_max_bytes"},
    )
    segment_jitter_ms: Long | None = Field(
        None,
        ge=0,
        description="Maximum time by which a segment is closed before segment.ms, in ms. It differs between segments, "
        "so that not all are closed at the same time.",
        json_schema_extra={"synonym": "log_roll_jitter_ms"},
    )
    segment_ms: Long | None = Field(
        None,
        ge=1,
        description="Maximum age of a segment before the next one begins, in ms.",
        json_schema_extra={"synonym": "log_roll_ms"},
    )
    unclean_leader_election_enable: Bool | None = Field(
        None,
        description="No effect: there is one copy, so no leader lacks records.",
        json_schema_extra={"synonym": "unclean_leader_election_enable"},
    )


BY_UNIT = {
    "log_retention_ms": ("log_retention_ms", "log_retention_minutes", "log_retention_hours"),
    "log_roll_jitter_ms": ("log_roll_jitter_ms", "log_roll_jitter_hours"),
    "log_roll_ms": ("log_roll_ms", "log_roll_hours"),
}
"""Broker properties that are equivalent in other units, in order of precedence."""

TOPIC_CONFIGS: tuple[str, ...] = tuple(str(field.alias) for field in TopicConfigs.model_fields.values())
"""Names that can be set on a topic."""

TYPES: Mapping[str, ConfigType] = {str(field.alias): type_of(field) for field in TopicConfigs.model_fields.values()}


_NO_TIERS = (
    "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
)


def topic_config_errors(config: Mapping[str, str | None]) -> str | None:
    """Why CreateTopics must refuse these configs of a topic with INVALID_CONFIG; None if they are valid.

    In Kafka's words, those of several problems with a semicolon; Kafka stops at the first.
    """
    if without := [name for name, value in config.items() if value is None]:
        return f"Null value not supported for topic configs: {','.join(without)}"
    problems = [_unknown(name) for name in sorted(set(config) - set(TOPIC_CONFIGS))]
    try:
        own = TopicConfigs.model_validate({name: config[name] for name in TOPIC_CONFIGS if name in config})
    except ValidationError as error:
        problems += kafka_problems_of(error, TYPES)
    else:
        problems += _conflicts(own)
    return "; ".join(problems) or None


def _conflicts(config: TopicConfigs) -> list[str]:
    """Return the errors that the checks of Kafka's LogConfig find."""
    problems = []
    least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least is not None and most is not None and least > most:
        problems.append(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if config.remote_storage_enable:
        problems.append(_NO_TIERS)
    return problems


def valid_topic_configs(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the valid ones of the stored configs; another version or another program may have stored others."""
    return {name: value for name, value in stored.items() if topic_config_errors({name: value}) is None}


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, TOPIC_CONFIGS, n=1, cutoff=0.7)
    return f"Unknown topic config name: {name}" + (f" (did you mean {nearest[0]}?)" if nearest else "")


def synonym_of(field: FieldInfo) -> str | None:
    """Return the field of the broker's property for topics without the config; None if there is none."""
    return _extra(field).get("synonym")


def default_of(field: FieldInfo) -> str | None:
    """Return the default of a config that no property of the broker has; None if one has."""
    return _extra(field).get("default")


def _extra(field: FieldInfo) -> Mapping[str, str]:
    extra = field.json_schema_extra
    return {key: str(value) for key, value in extra.items()} if isinstance(extra, dict) else {}
