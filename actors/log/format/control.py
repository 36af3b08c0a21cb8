"""Control batches: a batch of one record that ends a producer's transaction in a partition (KIP-98).

The record's key is ``version i16 = 0 | type i16``, with type 0 for ABORT and 1 for COMMIT, its value
``version i16 = 0 | coordinator epoch i32``. Readers skip types and versions that they do not know.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from muster.actors.log.errors import LogError
from muster.actors.log.format.batch import CONTROL, TRANSACTIONAL, BatchHeader
from muster.actors.log.format.records import BatchProducer, build_batch, read_records
from muster.actors.wire.kafka.framing import Buffer

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
_ABORT, _COMMIT = 0, 1


class EndOfTransaction(NamedTuple):
    """End of a producer's transaction, by its control batch."""

    commit: bool
    coordinator_epoch: int


def control_batch(
    producer_id: int,
    producer_epoch: int,
    end: EndOfTransaction,
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> bytearray:
    """Return the control batch that ends a transaction: 78 bytes, one offset."""
    key = _KEY.pack(_VERSION, _COMMIT if end.commit else _ABORT)
    producer = BatchProducer(producer_id, producer_epoch, attributes=TRANSACTIONAL | CONTROL)
    record = (key, _VALUE.pack(_VERSION, end.coordinator_epoch))
    return build_batch([record], timestamp_ms, base_offset, leader_epoch, producer=producer)


def read_control(batch: Buffer, header: BatchHeader) -> EndOfTransaction | None:
    """Return the end of a transaction in a control batch; None if it has no record, or none that is known."""
    try:
        record = next(read_records(batch, header), None)
        if record is None or record.key is None or record.value is None:
            return None
        version, kind = _KEY.unpack_from(record.key)
        coordinator_epoch = _VALUE.unpack_from(record.value)[1]
    except (LogError, struct.error):
        return None
    if version != _VERSION or kind not in (_ABORT, _COMMIT):
        return None
    return EndOfTransaction(kind == _COMMIT, coordinator_epoch)
