"""Where the records of each leader epoch end: over activations, segments, and what the cleaner left."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import OffsetOutOfRange
from muster.actors.log.format.batch import iter_headers
from muster.actors.log.leader_epochs import divergence
from muster.actors.log.partition import PartitionLog
from muster.actors.wire.internal.fetch import EpochEnd
from tests.log.support import client_batch, open_log, run

pytestmark = pytest.mark.usefixtures("either_storage")

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200)
UNKNOWN = (-1, -1)


async def written(directory: Path, activations: dict[int, list[int]], config: LogConfig = SMALL) -> PartitionLog:
    """Write a log of these numbers of records in each batch, by leader epoch; the last epoch has it open."""
    log: PartitionLog | None = None
    for epoch, counts in activations.items():
        if log is not None:
            await log.close()
        log = open_log(directory, epoch, config=config)
        for count in counts:
            await log.append(client_batch(count))
    assert log is not None
    return log


def test_ends_of_epochs(tmp_path: Path) -> None:
    async def main() -> None:
        log = await written(tmp_path / "t-0", {2: [3, 4], 5: [], 6: [1] * 9, 9: []})
        found = {epoch: log.end_offset_for_epoch(epoch) for epoch in range(-1, 11)}
        assert found == {
            -1: UNKNOWN,
            0: (0, 0),
            1: (1, 0),
            2: (2, 7),
            3: (2, 7),
            4: (2, 7),
            5: (2, 7),
            6: (6, 16),
            7: (6, 16),
            8: (6, 16),
            9: (9, 16),
            10: UNKNOWN,
        }
        await log.append(client_batch(2))
        assert [log.end_offset_for_epoch(epoch) for epoch in (8, 9)] == [(6, 16), (9, 18)]
        await log.close()

    run(main())


def test_where_records_part(tmp_path: Path) -> None:
    async def main() -> None:
        log = await written(tmp_path / "t-0", {2: [3, 4], 6: [1] * 9})
        assert divergence(log, 7, -1) is None
        assert [divergence(log, offset, 2) for offset in (0, 7, 8)] == [None, None, EpochEnd(2, 7)]
        assert [divergence(log, offset, 6) for offset in (9, 16, 17)] == [None, None, EpochEnd(6, 16)]
        assert divergence(log, 7, 4) == EpochEnd(2, 7)
        with pytest.raises(OffsetOutOfRange):
            divergence(log, 7, 7)
        await log.close()

    run(main())


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(1, 4), max_size=6), min_size=1, max_size=5), st.integers(0, 8), st.booleans())
def test_any_log(activations: list[list[int]], deleted: int, cleaned: bool) -> None:
    """Compared with the headers of all batches; the cleaner may only make ends larger."""
    config = (
        SMALL
        if not cleaned
        else LogConfig(
            segment_bytes=600, index_interval_bytes=200, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0
        )
    )

    async def main(directory: Path) -> None:
        log = await written(directory, dict(enumerate(activations)), config)
        ends: dict[int, int] = {}
        for _, header in iter_headers(log.read(0, 1 << 20, at_least_one=True)):
            ends[header.partition_leader_epoch] = header.last_offset + 1
        newest = len(activations) - 1
        if cleaned:
            await log.clean()
        elif log.high_watermark:
            await log.delete_records(min(deleted, log.high_watermark))
        for epoch in range(newest):
            _, end = log.end_offset_for_epoch(epoch)
            known = max((end for of, end in ends.items() if of <= epoch), default=0)
            assert end >= known if cleaned or deleted else end == known
        assert log.end_offset_for_epoch(newest) == (newest, log.log_end_offset)
        await log.close()

    with tempfile.TemporaryDirectory() as folder:
        run(main(Path(folder) / "t-0"))
