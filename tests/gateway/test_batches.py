"""Reading of the batches that a gateway forwards."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from muster.actors.log.errors import CorruptMessage
from muster.actors.log.format.batch import iter_headers
from muster.actors.log.format.records import build_batch
from muster.gateway.apis.batches import Summary, summarize

RECORDS = ((7, 1), (8, 5), (20, 2))
"""Base offset and number of records of each batch; offsets 13 to 19 were compacted away."""
BATCHES = [bytes(build_batch([(None, b"value")] * count, 5, offset, -1)) for offset, count in RECORDS]
TRANSACTIONAL, CONTROL = 0x10, 0x30
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def batch(offset: int, producer_id: int, count: int = 1, *, marker: bytes | None = None) -> bytes:
    """Return a transaction's batch: data, or the marker with that key."""
    records = [(None, b"value")] * count if marker is None else [(marker, b"\0\0\0\0\0\7")]
    made = bytearray(build_batch(records, 5, offset, -1))
    made[21:23] = (TRANSACTIONAL if marker is None else CONTROL).to_bytes(2, "big")
    made[43:51] = producer_id.to_bytes(8, "big")
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return bytes(made)


@pytest.mark.parametrize(
    ("batches", "summary"),
    [(0, (-1, -1, 0, 0)), (1, (7, 7, 1, 1)), (2, (7, 12, 6, 2)), (3, (7, 21, 8, 3))],
)
def test_whole_batches(batches: int, summary: tuple[int, int, int, int]) -> None:
    assert summarize((b"".join(BATCHES[:batches]),)) == Summary(*summary)


def test_what_is_cut_off_anywhere_is_refused() -> None:
    data = b"".join(BATCHES)
    whole = {sum(map(len, BATCHES[:count])) for count in range(len(BATCHES) + 1)}
    for cut in range(len(data)):
        if cut in whole:
            assert summarize((data[:cut],)).batches == len(list(iter_headers(data[:cut])))
        else:
            with pytest.raises(CorruptMessage):
                summarize((data[:cut],))


INTERLEAVED = [
    batch(0, 1, 3),  # of producer 1, committed
    batch(3, 2, 2),  # of producer 2, aborted
    batch(5, 1, marker=COMMIT),
    batch(6, 1, 4),  # of producer 1, aborted
    bytes(build_batch([(None, b"value")] * 2, 5, 10, -1)),  # without a transaction
    batch(12, 2, marker=ABORT),
    batch(13, 2, 5),  # of producer 2, committed
    batch(18, 1, marker=ABORT),
    batch(19, 2, marker=COMMIT),
]
ABORTED = [(2, 3), (1, 6)]


@pytest.mark.parametrize("parts", [1, 2, 9])
def test_control_records_and_records_of_aborted_transactions_are_counted(parts: int) -> None:
    each = -(-len(INTERLEAVED) // parts)
    split = [b"".join(INTERLEAVED[at : at + each]) for at in range(0, len(INTERLEAVED), each)]
    assert summarize(split, ABORTED) == Summary(0, 19, 20, 9, control_records=4, aborted_records=6)
    assert summarize(split, ABORTED[::-1]) == summarize(split, ABORTED)


def test_a_reader_of_uncommitted_records_gets_no_list_and_skips_only_control_records() -> None:
    assert summarize(INTERLEAVED) == Summary(0, 19, 20, 9, control_records=4, aborted_records=0)


def test_a_transaction_that_began_before_the_fetch_offset_is_aborted_too() -> None:
    assert summarize(INTERLEAVED[3:4], [(1, 2)]) == Summary(6, 9, 4, 1, control_records=0, aborted_records=4)


def test_a_transaction_that_begins_after_the_batches_aborts_none_of_them() -> None:
    assert summarize(INTERLEAVED[:1], [(1, 6)]) == Summary(0, 2, 3, 1)
