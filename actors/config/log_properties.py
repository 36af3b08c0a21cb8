"""Properties of topics and their logs. Sources as in :mod:`muster.actors.config.properties`."""

from __future__ import annotations

from pydantic import BaseModel, Field

from muster.actors.config.types import (
    Bool,
    CleanupPolicy,
    Compression,
    Double,
    GzipLevel,
    Int,
    Long,
    TimestampType,
)

_MAX_LONG = 2**63 - 1


class LogProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    num_partitions: Int = Field(1, ge=1, description="Number of partitions of a topic that is created without one.")
    auto_create_topics_enable: Bool = Field(
        True, description="Whether a topic is created when a client first requests it."
    )
    default_replication_factor: Int = Field(
        1,
        ge=1,
        le=32767,
        description="Replication factor of a topic that is created without one. Clients see it, but there is "
        "one copy, as durable as storage.path.",
    )
    max_replication_factor: Int = Field(
        32767,
        ge=1,
        le=32767,
        description="Maximum replication factor of a new topic. There is always one copy; with 1, higher "
        "factors are refused.",
    )
    delete_topic_enable: Bool = Field(True, description="Whether DeleteTopics is allowed.")
    message_max_bytes: Int = Field(1_048_588, ge=0, description="Maximum size of an accepted record batch, in bytes.")
    compression_type: Compression = Field(
        "producer",
        description="Codec in which records are stored: gzip, snappy, lz4, zstd, uncompressed, or producer: as sent.",
    )
    compression_gzip_level: GzipLevel = Field(
        -1, description="Level at which batches are compressed with compression.type=gzip: 1 to 9; -1: zlib's default."
    )
    compression_lz4_level: Int = Field(
        9,
        ge=1,
        le=17,
        description="Level at which batches are compressed with compression.type=lz4: 1 to 17. As in Kafka, 9 is the "
        "fastest; of the others, higher ones compress more, up to 12.",
    )
    compression_zstd_level: Int = Field(
        3,
        ge=-131_072,
        le=22,
        description="Level at which batches are compressed "
        "with compression.type=zstd: up to 22; negative ones are faster.",
    )
    log_segment_bytes: Int = Field(1_073_741_824, ge=14, description="Size of a log segment file, in bytes.")
    log_retention_ms: Long | None = Field(
        None, ge=-1, description="How long records are kept, in ms; -1: forever. Overrides .minutes and .hours."
    )
    log_retention_minutes: Int | None = Field(None, ge=-1, description="log.retention.ms in minutes; overrides .hours.")
    log_retention_hours: Int = Field(168, ge=-1, description="log.retention.ms in hours.")
    log_retention_bytes: Long = Field(
        -1, ge=-1, description="Size above which a partition loses old segments, in bytes; -1: no limit."
    )
    log_retention_check_interval_ms: Long = Field(
        300_000, ge=1, description="How often to look for records to be removed, in ms."
    )
    log_roll_ms: Long | None = Field(
        None, ge=1, description="Maximum age of a segment before the next one begins, in ms. Overrides .hours."
    )
    log_roll_hours: Int = Field(168, ge=1, description="log.roll.ms in hours.")
    log_roll_jitter_ms: Long | None = Field(
        None,
        ge=0,
        description="Maximum time by which a segment is closed before its maximum age, in ms. It differs between "
        "segments, so that not all are closed at the same time. Overrides .hours.",
    )
    log_roll_jitter_hours: Int = Field(0, ge=0, description="log.roll.jitter.ms in hours.")
    log_index_interval_bytes: Int = Field(
        4096, ge=0, description="Bytes of a segment between two entries of its index."
    )
    log_flush_interval_messages: Long = Field(
        1,
        ge=1,
        description="Number of records after which a log is synced. 1, unlike in Kafka: every acknowledged "
        "record is synced. With more, records are acknowledged before they are synced; they survive"
        " a killed process, but not a power failure.",
    )
    log_flush_interval_ms: Long = Field(
        2**63 - 1,
        ge=0,
        description="Maximum time before a record is synced, in ms; only with log.flush.interval.messages above 1.",
    )
    log_message_timestamp_type: TimestampType = Field(
        "CreateTime", description="Whether a record's timestamp is the producer's or the time of the append."
    )
    log_message_timestamp_before_max_ms: Long = Field(
        _MAX_LONG,
        ge=0,
        description="How old a record's CreateTime may be when it is produced, in ms; older ones are refused with "
        "INVALID_TIMESTAMP.",
    )
    log_message_timestamp_after_max_ms: Long = Field(
        3_600_000,
        ge=0,
        description="How far a record's CreateTime may be ahead of the clock when it is produced, in ms; later ones "
        "are refused with INVALID_TIMESTAMP.",
    )
    log_cleanup_policy: CleanupPolicy = Field(
        "delete", description="delete, compact, or both; empty: records are kept forever, except for DeleteRecords."
    )
    log_cleaner_enable: Bool = Field(True, description="Whether logs are cleaned (compacted).")
    log_cleaner_backoff_ms: Long = Field(
        15_000, ge=1, description="How often the cleaner looks for a log to clean, in ms."
    )
    log_cleaner_dedupe_buffer_size: Long = Field(
        134_217_728,
        ge=1 << 20,
        description="Memory for the keys of one run of the cleaner, in bytes, per actor; each key counts as "
        "160. More keys take several runs.",
    )
    log_cleaner_delete_retention_ms: Long = Field(
        86_400_000, ge=0, description="How long the cleaner keeps a tombstone that it has seen, in ms."
    )
    log_cleaner_min_cleanable_ratio: Double = Field(
        0.5, ge=0, le=1, description="Minimum share of a log, by bytes, that must be new before it is cleaned."
    )
    log_cleaner_min_compaction_lag_ms: Long = Field(
        0, ge=0, description="Minimum age of a record before it is cleaned, in ms."
    )
    log_cleaner_max_compaction_lag_ms: Long = Field(
        _MAX_LONG,
        ge=1,
        description="Age of a record after which its log is cleaned whatever its dirty ratio, in ms.",
    )
    producer_id_expiration_ms: Int = Field(
        86_400_000,
        ge=1,
        description="Time after which a partition forgets a producer that no longer writes, in ms; not while its "
        "transaction is open.",
    )
