"""The configuration of a log. Names and defaults are those of Kafka's topic configuration."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from muster.actors.log.format.compression import CODEC_OF, CODECS, GZIP, LZ4, NO_COMPRESSION, PRODUCER, ZSTD

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
FOR_EVER = -1
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
MAX_TIMESTAMP_MS = _MAX_LONG = 2**63 - 1
_TYPES: Mapping[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    """segment.bytes: a segment file is closed before it grows beyond this size."""
    max_message_bytes: int = 1_048_588
    """max.message.bytes: largest record batch, headers included."""
    message_timestamp_type: str = CREATE_TIME
    """message.timestamp.type: CreateTime or LogAppendTime."""
    message_timestamp_before_max_ms: int = _MAX_LONG
    """message.timestamp.before.max.ms: how old a record's CreateTime may be when it is produced."""
    message_timestamp_after_max_ms: int = _HOUR_MS
    """message.timestamp.after.max.ms: how far it may be ahead of this node's clock."""
    compression_type: str = PRODUCER
    """compression.type: the codec of the batches that are stored, or producer."""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    index_interval_bytes: int = 4096
    """index.interval.bytes: there is one index entry for each interval of this size; 0: one for each batch."""
    own_codec: int = NO_COMPRESSION
    """offsets.topic.compression.codec: for batches that are built by the log's owner, not by a producer."""
    load_buffer_bytes: int = 256 << 10
    """offsets.load.buffer.size: how much ``replay`` reads at a time; a larger batch is read whole."""
    flush_messages: int = 1
    """flush.messages: sync after this many records. 1: sync before every acknowledgement."""
    flush_ms: int = _MAX_LONG
    """flush.ms: sync after this much time."""
    cleanup_policy: str = "delete"
    """cleanup.policy: delete, compact, or both with a comma; empty: neither."""
    retention_ms: int = 7 * _DAY_MS
    """retention.ms, with the policy delete; -1: for ever."""
    retention_bytes: int = -1
    """retention.bytes, with the policy delete; -1: no limit."""
    segment_ms: int = 7 * _DAY_MS
    """segment.ms: a segment that began longer ago is closed, to make it removable or cleanable."""
    segment_jitter_ms: int = 0
    """segment.jitter.ms: by how much earlier, at most, it is closed."""
    delete_retention_ms: int = _DAY_MS
    """delete.retention.ms: for how long the cleaner keeps a tombstone that it has seen."""
    min_cleanable_dirty_ratio: float = 0.5
    """min.cleanable.dirty.ratio: a log is cleaned above this ratio, by bytes."""
    min_compaction_lag_ms: int = 0
    """min.compaction.lag.ms: younger records are not cleaned."""
    max_compaction_lag_ms: int = _MAX_LONG
    """max.compaction.lag.ms: a log with older records is cleaned regardless of its ratio."""
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: int = 15_000
    """How often the cleaner looks for logs to clean."""
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    """The memory limit of the cleaner's map of keys."""
    producer_id_expiration_ms: int = _DAY_MS
    transaction_partition_verification_enable: bool = True
    """Whether the coordinator must confirm a transaction that a producer of the classic protocol begins here."""
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    """How often, and for how long in total, to try to add a partition to a transaction whose predecessor is ending."""

    deletes: bool = field(init=False, repr=False, compare=False)
    """Whether records expire by age and size, and may be deleted."""
    compacts: bool = field(init=False, repr=False, compare=False)
    """Whether the last record of each key is kept."""
    codec: int | None = field(init=False, repr=False, compare=False)
    """The codec of stored batches; None if each keeps its producer's."""

    def __post_init__(self) -> None:
        if self.segment_bytes <= 0 or min(self.index_interval_bytes, self.max_message_bytes) < 0:
            raise ValueError("segment.bytes is greater than 0, index.interval.bytes and max.message.bytes at least 0")
        if self.flush_messages < 1 or self.flush_ms < 0:
            raise ValueError("flush.messages is at least 1, and flush.ms at least 0")
        if min(self.message_timestamp_before_max_ms, self.message_timestamp_after_max_ms) < 0:
            raise ValueError("message.timestamp.before.max.ms and message.timestamp.after.max.ms are at least 0")
        if self.own_codec not in CODECS or self.load_buffer_bytes <= 0:
            raise ValueError("a codec is one of 0-4, and a buffer holds something")
        if self.compression_type not in (PRODUCER, *CODEC_OF):
            raise ValueError(f"compression.type is none of {', '.join(CODEC_OF)} and {PRODUCER}")
        if self.message_timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
            raise ValueError(f"message.timestamp.type is {CREATE_TIME} or {LOG_APPEND_TIME}")
        object.__setattr__(self, "deletes", "delete" in self.cleanup_policy)
        object.__setattr__(self, "compacts", "compact" in self.cleanup_policy)
        object.__setattr__(self, "codec", CODEC_OF.get(self.compression_type))

    @property
    def level(self) -> int | None:
        """The level of that codec; None if it has none."""
        levels = {GZIP: self.compression_gzip_level, LZ4: self.compression_lz4_level, ZSTD: self.compression_zstd_level}
        return None if self.codec is None else levels.get(self.codec)

    def roll_ms(self, segment: Path) -> int:
        """Return the age at which the segment is closed: its own, by its name, with segment.jitter.ms."""
        jitter_ms = min(self.segment_jitter_ms, self.segment_ms)
        early_ms = zlib.crc32(bytes(segment)) % jitter_ms if jitter_ms else 0
        longest_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        return max(longest_ms - early_ms, 0)

    @property
    def max_batch_bytes(self) -> int:
        """The largest record batch that is accepted and fits into a segment."""
        return min(self.max_message_bytes, self.segment_bytes)

    def override(self, topic: Mapping[str, str]) -> Self:
        """Return this configuration with the topic's overrides; other components' properties are ignored.

        Raises ValueError.
        """
        changes: dict[str, Any] = {}
        for declared in dataclasses.fields(self):
            text = topic.get(declared.name.replace("_", "."))
            if text is not None:
                changes[declared.name] = _TYPES[str(declared.type)](text.strip())
        return dataclasses.replace(self, **changes) if changes else self
