"""What can be set on a log. Names and defaults are those of Kafka's topic configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from actors.log.compression import CODECS, NO_COMPRESSION

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    """segment.bytes: a segment file is closed before it would grow beyond this."""
    max_message_bytes: int = 1_048_588
    """max.message.bytes: largest record batch, headers included."""
    message_timestamp_type: str = CREATE_TIME
    """message.timestamp.type: CreateTime or LogAppendTime."""
    index_interval_bytes: int = 4096
    """index.interval.bytes: one index entry per so many bytes of log."""
    own_codec: int = NO_COMPRESSION
    """offsets.topic.compression.codec: of the batches that are built by the log's owner, not by a producer."""
    load_buffer_bytes: int = 256 << 10
    """offsets.load.buffer.size: how much ``replay`` reads at a time; a larger batch is read whole."""

    def __post_init__(self) -> None:
        if min(self.segment_bytes, self.max_message_bytes, self.index_interval_bytes) <= 0:
            raise ValueError("segment.bytes, max.message.bytes and index.interval.bytes are greater than 0")
        if self.own_codec not in CODECS or self.load_buffer_bytes <= 0:
            raise ValueError("a codec is one of 0-4, and a buffer holds something")
        if self.message_timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
            raise ValueError(f"message.timestamp.type is {CREATE_TIME} or {LOG_APPEND_TIME}")

    @property
    def max_batch_bytes(self) -> int:
        """Largest record batch that is accepted and fits into a segment."""
        return min(self.max_message_bytes, self.segment_bytes)

    def override(self, topic: Mapping[str, str]) -> Self:
        """This, with what is set on the topic; properties of other parts are passed over. ValueError."""
        changes: dict[str, Any] = {}
        for declared in dataclasses.fields(self):
            text = topic.get(declared.name.replace("_", "."))
            if text is not None:
                changes[declared.name] = text if declared.type == "str" else int(text)
        return dataclasses.replace(self, **changes) if changes else self
