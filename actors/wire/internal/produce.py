"""PRODUCE and PRODUCED: batches that a gateway wants in an actor's logs, and what became of them.

The records pass as they are, without being copied into a Kafka request and out of it. What concerns transactions is
there once per message, as in Kafka's Produce.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from muster.actors.wire.internal.envelope import Kind
from muster.actors.wire.internal.fetch import topic_id_of
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer

_HEAD = struct.Struct(">BI")
_TRANSACTION = struct.Struct(">b?i")
_PARTITION = struct.Struct(">16siI")
_RESULT = struct.Struct(">hqqqiI")
_RECORD_ERROR = struct.Struct(">iI")
_NO_TEXT = -1
_OK = ErrorCode.none


class ProducePartition(NamedTuple):
    """The one batch for a partition. Fields as in Kafka's Produce."""

    topic_id: UUID
    partition: int
    records: Buffer


class ProduceRequest(NamedTuple):
    """Batches for any number of partitions, and the producer's transaction if any of them is transactional."""

    partitions: Sequence[ProducePartition]
    transactional_id: str | None = None
    transaction_version: int = 0
    """2 from Produce v12 on: the producer relies on the broker to add the partitions (KIP-890, part 2). Else 0."""
    knows_abortable: bool = False
    """Whether the producer knows TRANSACTION_ABORTABLE: Produce v11 and later."""


class RecordError(NamedTuple):
    """Why a batch is refused because of one of its records (KIP-467)."""

    batch_index: int
    message: str


class ProducedPartition(NamedTuple):
    """Fields as in the response to Kafka's Produce."""

    error_code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    """-1 with message.timestamp.type=CreateTime."""
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()


def write_produce(token: int, request: ProduceRequest) -> list[Buffer]:
    """Return a PRODUCE, in parts."""
    partitions, transactional_id, transaction_version, knows_abortable = request
    text = b"" if transactional_id is None else transactional_id.encode()
    size_bytes = _NO_TEXT if transactional_id is None else len(text)
    head = _HEAD.pack(Kind.PRODUCE, token) + _TRANSACTION.pack(transaction_version, knows_abortable, size_bytes) + text
    parts: list[Buffer] = [head]
    for topic_id, partition, records in partitions:
        parts += (_PARTITION.pack(topic_id.bytes, partition, len(records)), records)
    return parts


def read_produce(message: bytes) -> tuple[int, ProduceRequest]:
    """Token and request of a PRODUCE. Records are views of ``message``. Raises ValueError if it is cut off."""
    view, at = memoryview(message), _HEAD.size + _TRANSACTION.size
    partitions: list[ProducePartition] = []
    try:
        _, token = _HEAD.unpack_from(message)
        transaction_version, knows_abortable, text_bytes = _TRANSACTION.unpack_from(message, _HEAD.size)
        transactional_id = None if text_bytes == _NO_TEXT else message[at : at + text_bytes].decode()
        at += max(text_bytes, 0)
        while at < len(message):
            topic_id, partition, size_bytes = _PARTITION.unpack_from(message, at)
            at += _PARTITION.size
            partitions.append(ProducePartition(topic_id_of(topic_id), partition, view[at : at + size_bytes]))
            at += size_bytes
    except struct.error as error:
        raise ValueError(f"a PRODUCE: {error}") from error
    if at != len(message):
        raise ValueError("a PRODUCE that is cut off")
    return token, ProduceRequest(partitions, transactional_id, transaction_version, knows_abortable)


def write_produced(token: int, partitions: Iterable[ProducedPartition]) -> bytes:
    """Return a PRODUCED; partitions in the order of the PRODUCE."""
    parts = [_HEAD.pack(Kind.PRODUCED, token)]
    for error_code, base_offset, append_time_ms, log_start_offset, error_message, record_errors in partitions:
        if error_message is None and not record_errors:
            parts.append(_RESULT.pack(error_code, base_offset, append_time_ms, log_start_offset, _NO_TEXT, 0))
            continue
        text = b"" if error_message is None else error_message.encode()
        text_bytes = _NO_TEXT if error_message is None else len(text)
        head = (error_code, base_offset, append_time_ms, log_start_offset, text_bytes, len(record_errors))
        parts += (_RESULT.pack(*head), text)
        for batch_index, message in record_errors:
            text = message.encode()
            parts += (_RECORD_ERROR.pack(batch_index, len(text)), text)
    return b"".join(parts)


def read_produced(body: bytes) -> Sequence[ProducedPartition]:
    """Return the partitions of a PRODUCED without its token. Raises ValueError if it is cut off."""
    at = 0
    found: list[ProducedPartition] = []
    try:
        while at < len(body):
            error, base_offset, log_append_time_ms, log_start_offset, size_bytes, count = _RESULT.unpack_from(body, at)
            at += _RESULT.size
            if size_bytes == _NO_TEXT and not count:
                found.append(
                    ProducedPartition(
                        _OK if error == 0 else ErrorCode(error), base_offset, log_append_time_ms, log_start_offset
                    )
                )
                continue
            text = None if size_bytes == _NO_TEXT else body[at : at + size_bytes].decode()
            at += max(size_bytes, 0)
            record_errors = []
            for _ in range(count):
                batch_index, size_bytes = _RECORD_ERROR.unpack_from(body, at)
                at += _RECORD_ERROR.size
                record_errors.append(RecordError(batch_index, body[at : at + size_bytes].decode()))
                at += size_bytes
            numbers = base_offset, log_append_time_ms, log_start_offset
            found.append(ProducedPartition(ErrorCode(error), *numbers, text, tuple(record_errors)))
    except struct.error as error:
        raise ValueError(f"a PRODUCED: {error}") from error
    if at != len(body):
        raise ValueError("a PRODUCED that is cut off")
    return found
