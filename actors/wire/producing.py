"""PRODUCE and PRODUCED: batches that a gateway wants in an actor's logs, and what became of them.

The records pass as they are, without being copied into a Kafka request and out of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from muster.actors.wire.codec import ErrorCode
from muster.actors.wire.envelope import Kind
from muster.actors.wire.framing import Buffer

_HEAD = struct.Struct(">BI")
_PARTITION = struct.Struct(">16siI")
_RESULT = struct.Struct(">hqqqi")
_NO_TEXT = -1


class ProducePartition(NamedTuple):
    """The one batch for a partition. Fields as in Kafka's Produce."""

    topic_id: UUID
    partition: int
    records: Buffer


class ProducedPartition(NamedTuple):
    """Fields as in the response to Kafka's Produce."""

    error_code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    """-1 with message.timestamp.type=CreateTime."""
    log_start_offset: int = -1
    error_message: str | None = None


def write_produce(token: int, partitions: Iterable[ProducePartition]) -> list[Buffer]:
    """A PRODUCE, in parts."""
    parts: list[Buffer] = [_HEAD.pack(Kind.PRODUCE, token)]
    for topic_id, partition, records in partitions:
        parts += (_PARTITION.pack(topic_id.bytes, partition, len(records)), records)
    return parts


def read_produce(message: bytes) -> tuple[int, list[ProducePartition]]:
    """Token and partitions of a PRODUCE. Records are views of ``message``. ValueError if it is cut off."""
    view, at = memoryview(message), _HEAD.size
    partitions: list[ProducePartition] = []
    try:
        _, token = _HEAD.unpack_from(message)
        while at < len(message):
            topic_id, partition, size_bytes = _PARTITION.unpack_from(message, at)
            at += _PARTITION.size
            partitions.append(ProducePartition(UUID(bytes=topic_id), partition, view[at : at + size_bytes]))
            at += size_bytes
    except struct.error as error:
        raise ValueError(f"a PRODUCE: {error}") from error
    if at != len(message):
        raise ValueError("a PRODUCE that is cut off")
    return token, partitions


def write_produced(token: int, partitions: Iterable[ProducedPartition]) -> bytes:
    """A PRODUCED; partitions in the order of the PRODUCE."""
    parts = [_HEAD.pack(Kind.PRODUCED, token)]
    for error_code, *numbers, error_message in partitions:
        text = b"" if error_message is None else error_message.encode()
        parts += (_RESULT.pack(error_code, *numbers, _NO_TEXT if error_message is None else len(text)), text)
    return b"".join(parts)


def read_produced(body: bytes) -> Sequence[ProducedPartition]:
    """The partitions of a PRODUCED without its token. ValueError if it is cut off."""
    at = 0
    found: list[ProducedPartition] = []
    try:
        while at < len(body):
            error, base_offset, log_append_time_ms, log_start_offset, size_bytes = _RESULT.unpack_from(body, at)
            at += _RESULT.size
            text = None if size_bytes == _NO_TEXT else body[at : at + size_bytes].decode()
            at += max(size_bytes, 0)
            found.append(ProducedPartition(ErrorCode(error), base_offset, log_append_time_ms, log_start_offset, text))
    except struct.error as error:
        raise ValueError(f"a PRODUCED: {error}") from error
    if at != len(body):
        raise ValueError("a PRODUCED that is cut off")
    return found
