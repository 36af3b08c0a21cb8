"""Kafka's records of ``__transaction_state``: decoding and encoding.

TransactionLogKey v0, and TransactionLogValue v0 and v1 of Apache Kafka. v0 is written while ``transaction.version`` is
0 and the value has nothing that only v1 can carry.
"""

from __future__ import annotations

import struct

from muster.actors.group.codec.primitives import Reader, Writer
from muster.actors.group.errors import CorruptRecord
from muster.actors.group.types import Record
from muster.actors.transactions.messages import by_topic
from muster.actors.transactions.state import TransactionMetadata, TransactionState
from muster.actors.transactions.types import NO_PRODUCER_ID, TopicPartition, TransactionalId
from muster.actors.wire.kafka.schema import as_varint

KEY_VERSION = 0
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_TRANSACTION_VERSION = range(3)
_NULL = -1
_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")
_HEAD = struct.Struct(">hqhib")
"""Version, producer id, epoch, timeout, state."""
_TIMES = struct.Struct(">qq")
"""Last update, start."""


def transaction_record(
    transactional_id: TransactionalId, value: TransactionMetadata | None, transaction_version: int
) -> Record:
    """Return the record of a transactional id, or its tombstone."""
    key = Writer().int16(KEY_VERSION).string(transactional_id).bytes()
    return Record(key, None if value is None else _encode(value, transaction_version))


def decode_key(data: bytes) -> TransactionalId | None:
    """None for a version that is not known. Raises CorruptRecord if the bytes do not match their version."""
    source = Reader(data)
    return TransactionalId(source.string()) if source.int16() == KEY_VERSION else None


def decode_value(data: bytes) -> TransactionMetadata:
    """Decode a value. Raises CorruptRecord if the bytes are none, or have an unknown version or state."""
    source = Reader(data)
    version = source.int16()
    if version not in (0, 1):
        raise CorruptRecord(f"a transaction of value version {version}")
    source.flexible = version == 1
    producer_id, epoch, timeout_ms = source.int64(), source.int16(), source.int32()
    number = source.int8()
    try:
        state = TransactionState(number)
    except ValueError as error:
        raise CorruptRecord(f"a transaction of state {number}") from error
    partitions = frozenset(_decode_partitions(source))
    last_update_ms, start_ms = source.int64(), source.int64()
    tagged = source.tagged_fields()
    return TransactionMetadata(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        previous_producer_id=_tagged(tagged, _PREVIOUS_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        next_producer_id=_tagged(tagged, _NEXT_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        client_transaction_version=_tagged(tagged, _CLIENT_TRANSACTION_VERSION, _INT16, 0),
    )


def _decode_partitions(source: Reader) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for _ in range(source.nullable_array_length()):
        topic = source.string()
        found += [(topic, source.int32()) for _ in range(source.array_length())]
        source.tagged_fields()
    return found


def _tagged(fields: dict[int, bytes], tag: int, kind: struct.Struct, default: int) -> int:
    if tag not in fields:
        return default
    try:
        return int(kind.unpack(fields[tag])[0])
    except struct.error as error:
        raise CorruptRecord(f"tagged field {tag} of a transaction: {error}") from error


def _encode(value: TransactionMetadata, transaction_version: int) -> bytes:
    tagged = _tagged_fields(value)
    version = 1 if transaction_version >= 1 or tagged else 0
    head = _HEAD.pack(version, value.producer_id, value.producer_epoch, value.timeout_ms, value.state)
    topics = None if value.state is TransactionState.EMPTY else by_topic(sorted(value.partitions))
    times = _TIMES.pack(value.last_update_ms, value.start_ms)
    if version == 0:
        return head + _classic_topics(topics) + times
    return head + _compact_topics(topics) + times + as_varint(len(tagged)) + b"".join(tagged)


def _tagged_fields(value: TransactionMetadata) -> list[bytes]:
    """Return the tagged fields without those that have their default, in order of their tags."""
    fields = (
        (_PREVIOUS_PRODUCER_ID, _INT64, value.previous_producer_id, NO_PRODUCER_ID),
        (_NEXT_PRODUCER_ID, _INT64, value.next_producer_id, NO_PRODUCER_ID),
        (_CLIENT_TRANSACTION_VERSION, _INT16, value.client_transaction_version, 0),
    )
    return [
        as_varint(tag) + as_varint(kind.size) + kind.pack(number)
        for tag, kind, number, default in fields
        if number != default
    ]


def _classic_topics(topics: dict[str, list[int]] | None) -> bytes:
    out = Writer().int32(_NULL if topics is None else len(topics))
    for topic, partitions in (topics or {}).items():
        out.string(topic).int32(len(partitions))
        for partition in partitions:
            out.int32(partition)
    return out.bytes()


def _compact_topics(topics: dict[str, list[int]] | None) -> bytes:
    if topics is None:
        return as_varint(0)
    parts = [as_varint(len(topics) + 1)]
    for topic, partitions in topics.items():
        name = topic.encode()
        parts += (as_varint(len(name) + 1), name, as_varint(len(partitions) + 1))
        parts += (struct.pack(f">{len(partitions)}i", *partitions), as_varint(0))
    return b"".join(parts)
