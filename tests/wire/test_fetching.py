"""FETCH and FETCHED, written and read."""

from __future__ import annotations

from uuid import UUID

import pytest

from muster.actors.wire.internal.fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    EpochEnd,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    LastFetched,
    Place,
    pack_partition,
    read_fetch,
    read_fetched,
    write_fetch,
    write_fetched,
)
from muster.actors.wire.kafka.codec import ErrorCode

TOPIC = UUID("00000000-0000-4000-8000-000000000001")
PARTITIONS = (FetchPartition(TOPIC, 0, -1, 2**40, 2**31 - 1), FetchPartition(TOPIC, 2**31 - 1, 7, 0, 0, 6))
PLACES = [Place("/a/topic-0/00000000000000000007.1.1.log", 2**33, 1000, 7, 12), Place("/é", 0, 1, 12, 2**50)]
ABORTED = [AbortedTransaction(2**60, 3), AbortedTransaction(1, 2**50)]
FETCHED = [
    FetchedPartition(ErrorCode.none, 12, 7, PLACES),
    FetchedPartition(ErrorCode.offset_out_of_range, -1, -1),
    FetchedPartition(
        ErrorCode.none, 2**50, 0, records=b"whole batches", last_stable_offset=2**40, aborted_transactions=[]
    ),
    FetchedPartition(ErrorCode.none, 12, 7, PLACES, last_stable_offset=11, aborted_transactions=ABORTED),
    FetchedPartition(ErrorCode.none, 12, 7, last_stable_offset=11, diverging=EpochEnd(3, 2**40)),
]
HEAD_BYTES = 5
"""Kind and token, which the connection reads."""


def body_of(token: int, fetched: list[FetchedPartition]) -> bytes:
    return b"".join(write_fetched(token, fetched))[HEAD_BYTES:]


@pytest.mark.parametrize("by_place", [False, True])
def test_a_fetch_is_read_as_it_was_written(by_place: bool) -> None:
    request = FetchRequest(by_place, 500, 1, 50 << 20, PARTITIONS, READ_COMMITTED)
    assert read_fetch(write_fetch(2**32 - 1, request)) == (2**32 - 1, request)


def test_what_was_fetched_is_read_as_it_was_written() -> None:
    found = read_fetched(body_of(7, FETCHED))
    assert [(each.error_code, each.high_watermark, each.log_start_offset) for each in found] == [
        (ErrorCode.none, 12, 7),
        (ErrorCode.offset_out_of_range, -1, -1),
        (ErrorCode.none, 2**50, 0),
        (ErrorCode.none, 12, 7),
        (ErrorCode.none, 12, 7),
    ]
    assert [list(each.places) for each in found] == [PLACES, [], [], PLACES, []]
    assert [bytes(each.records) for each in found] == [b"", b"", b"whole batches", b"", b""]
    assert [each.last_stable_offset for each in found] == [-1, -1, 2**40, 11, 11]
    assert [each.aborted_transactions for each in found] == [None, None, [], ABORTED, None]
    assert [each.diverging for each in found] == [None] * 4 + [EpochEnd(3, 2**40)]


def test_partitions_that_were_packed_before() -> None:
    request = FetchRequest(True, 500, 1, 50 << 20, PARTITIONS)
    packed = b"".join(pack_partition(*partition) for partition in PARTITIONS)
    assert write_fetch(1, request._replace(partitions=(), packed=packed)) == write_fetch(1, request)


def test_what_has_not_changed_is_not_read_again() -> None:
    last, quiet = LastFetched(), [FetchedPartition(ErrorCode.none, 12, 7, last_stable_offset=11)] * 2
    first = last.read(body_of(1, quiet))
    assert last.read(body_of(2, quiet)) is first
    for changed in (quiet[:1], [quiet[0], quiet[1]._replace(high_watermark=13)], FETCHED):
        found = last.read(body_of(3, changed))
        assert [each.high_watermark for each in found] == [each.high_watermark for each in changed]
    assert last.read(body_of(4, FETCHED)) is not last.read(body_of(5, FETCHED)), "records are not kept"


def test_records_are_not_copied() -> None:
    records = bytes(100_000)
    parts = write_fetched(1, [FetchedPartition(ErrorCode.none, 1, 0, records=records)])
    assert any(part is records for part in parts)
    body = b"".join(parts)[HEAD_BYTES:]
    (found,) = read_fetched(body)
    assert isinstance(found.records, memoryview)
    assert found.records.obj is body


def test_a_fetch_that_is_cut_off_is_refused() -> None:
    message = write_fetch(1, FetchRequest(True, 500, 1, 100, PARTITIONS))
    for size in range(len(message)):
        with pytest.raises(ValueError, match="a FETCH"):
            read_fetch(message[:size])


def test_what_was_fetched_and_is_cut_off_is_refused_or_ends_between_partitions() -> None:
    body = body_of(1, FETCHED)
    ends = {len(body_of(1, FETCHED[:count])) for count in range(len(FETCHED))}
    for size in range(len(body)):
        if size in ends:
            assert len(read_fetched(body[:size])) < len(FETCHED)
            continue
        with pytest.raises(ValueError, match=r"a FETCHED|codec can't decode"):
            read_fetched(body[:size])
