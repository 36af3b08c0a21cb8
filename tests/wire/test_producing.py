"""PRODUCE and PRODUCED, written and read."""

from __future__ import annotations

from uuid import UUID

import pytest

from muster.actors.wire.internal.produce import (
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    RecordError,
    read_produce,
    read_produced,
    write_produce,
    write_produced,
)
from muster.actors.wire.kafka.codec import ErrorCode

TOPIC = UUID("00000000-0000-4000-8000-000000000001")
BATCHES = [ProducePartition(TOPIC, 0, b"a batch"), ProducePartition(TOPIC, 2**31 - 1, b"")]
PRODUCED = [
    ProducedPartition(ErrorCode.none, 2**50, 1_700_000_000_000, 7),
    ProducedPartition(ErrorCode.corrupt_message, error_message="é: no batch"),
    ProducedPartition(ErrorCode.invalid_record, error_message=""),
    ProducedPartition(ErrorCode.invalid_record, record_errors=(RecordError(3, ""), RecordError(2**31 - 1, "é"))),
]
HEAD_BYTES = 5
"""Kind and token, which the connection reads."""


def test_batches_are_read_as_they_were_written() -> None:
    token, found = read_produce(b"".join(write_produce(2**32 - 1, ProduceRequest(BATCHES))))
    assert token == 2**32 - 1
    assert [(each.topic_id, each.partition, bytes(each.records)) for each in found.partitions] == BATCHES


@pytest.mark.parametrize("transaction", [(None, 0, False), ("", 0, True), ("\N{SNOWMAN}" * 20_000, 2, True)])
def test_the_transaction_is_read_as_it_was_written(transaction: tuple[str | None, int, bool]) -> None:
    request = ProduceRequest([], *transaction)
    assert read_produce(b"".join(write_produce(1, request))) == (1, request)


def test_records_are_not_copied() -> None:
    records = bytes(100_000)
    parts = write_produce(1, ProduceRequest([ProducePartition(TOPIC, 0, records)]))
    assert any(part is records for part in parts)
    message = b"".join(parts)
    (found,) = read_produce(message)[1].partitions
    assert isinstance(found.records, memoryview)
    assert found.records.obj is message


def test_results_are_read_as_they_were_written() -> None:
    assert read_produced(write_produced(7, PRODUCED)[HEAD_BYTES:]) == PRODUCED


def test_what_is_cut_off_is_refused_or_ends_between_partitions() -> None:
    message = b"".join(write_produce(1, ProduceRequest(BATCHES, "id")))
    ends = {len(b"".join(write_produce(1, ProduceRequest(BATCHES[:count], "id")))) for count in range(len(BATCHES))}
    for size in set(range(len(message))) - ends:
        with pytest.raises(ValueError, match="a PRODUCE"):
            read_produce(message[:size])
    body = write_produced(1, PRODUCED)[HEAD_BYTES:]
    ends = {len(write_produced(1, PRODUCED[:count])) - HEAD_BYTES for count in range(len(PRODUCED))}
    for size in set(range(len(body))) - ends:
        with pytest.raises(ValueError, match=r"a PRODUCED|codec can't decode"):
            read_produced(body[:size])
