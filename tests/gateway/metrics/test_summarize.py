"""What a gateway reads of the batches that it forwards."""

from __future__ import annotations

import pytest

from muster.actors.log.errors import CorruptMessage
from muster.actors.log.format.batch import iter_headers
from muster.actors.log.format.records import build_batch
from muster.gateway.apis.partitions import summarize

RECORDS = ((7, 1), (8, 5), (20, 2))
"""Base offset and number of records of each batch; offsets 13 to 19 were compacted away."""
BATCHES = [bytes(build_batch([(None, b"value")] * count, 5, offset, -1)) for offset, count in RECORDS]


@pytest.mark.parametrize(
    ("batches", "summary"),
    [(0, (-1, -1, 0, 0)), (1, (7, 7, 1, 1)), (2, (7, 12, 6, 2)), (3, (7, 21, 8, 3))],
)
def test_whole_batches(batches: int, summary: tuple[int, int, int, int]) -> None:
    assert summarize((b"".join(BATCHES[:batches]),)) == summary


def test_what_is_cut_off_anywhere_is_refused() -> None:
    data = b"".join(BATCHES)
    whole = {sum(map(len, BATCHES[:count])) for count in range(len(BATCHES) + 1)}
    for cut in range(len(data)):
        if cut in whole:
            assert summarize((data[:cut],))[3] == len(list(iter_headers(data[:cut])))
        else:
            with pytest.raises(CorruptMessage):
                summarize((data[:cut],))
