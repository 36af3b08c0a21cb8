"""Readers that go on where others ended: what a segment remembers of reads changes nothing in later ones."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.fetch import WaitingFetch, open_now
from muster.actors.log.format.batch import iter_headers
from muster.actors.log.partition import PartitionLog
from muster.actors.wire.internal.fetch import FetchedPartition, FetchPartition, FetchRequest
from tests.log.support import TOPIC_ID, client_batch, open_log, run

pytestmark = pytest.mark.usefixtures("either_storage")


def expected(batches: list[tuple[int, int, int]], offset: int, max_bytes: int) -> list[int]:
    """Return the base offsets of the batches of a read. ``batches``: base offset, last offset and size of each."""
    found: list[int] = []
    left = max_bytes
    for base_offset, last_offset, size_bytes in batches:
        if last_offset < offset:
            continue
        if found and size_bytes > left:
            break
        found.append(base_offset)
        left -= size_bytes
    return found


async def appended(log: PartitionLog, chance: random.Random, count: int) -> list[tuple[int, int, int]]:
    batches = []
    for _ in range(count):
        content = client_batch(chance.randint(1, 9), value=bytes(chance.choice((5, 300, 5_000))))
        base_offset = (await log.append(content)).base_offset
        batches.append((base_offset, log.log_end_offset - 1, len(content)))
    return batches


@pytest.mark.parametrize("index_interval_bytes", [0, 4096, 1 << 20])
def test_any_order_of_reads(tmp_path: Path, index_interval_bytes: int) -> None:
    async def main() -> None:
        chance = random.Random(7)
        config = LogConfig(segment_bytes=200_000, index_interval_bytes=index_interval_bytes)
        log = open_log(tmp_path / "t-0", 1, config=config)
        batches: list[tuple[int, int, int]] = []
        for _ in range(6):  # reads in between end where the next batches begin
            batches += await appended(log, chance, 25)
            offset = 0
            for _ in range(150):
                limit = chance.choice((1, 700, 6_000, 60_000, 1 << 20))
                records = log.read(offset, limit, at_least_one=True)
                read = list(iter_headers(records))
                assert [header.base_offset for _, header in read] == expected(batches, offset, limit)
                reads_on = read and chance.random() < 0.7
                offset = read[-1][1].next_offset if reads_on else chance.randrange(log.high_watermark + 1)
        assert len({batch[0] for batch in batches}) == 150
        await log.close()

    run(main())


def test_a_fetch_of_places_that_waits_gets_them_once_there_is_enough(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await log.append(client_batch())
        size_bytes = len(client_batch())

        def waiting(min_bytes: int, max_wait_ms: int) -> tuple[WaitingFetch, asyncio.Future[Any]]:
            partition = FetchPartition(TOPIC_ID, 0, -1, 1, 1 << 20)
            fetch = open_now(FetchRequest(True, max_wait_ms, min_bytes, 1 << 20, [partition]), lambda *_: log)
            assert fetch is not None
            assert fetch.response_now() is None
            got: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            return WaitingFetch(fetch, got.set_result), got

        _, one = waiting(1, 10_000)
        _, three = waiting(2 * size_bytes + 1, 10_000)
        _, late = waiting(1 << 19, 1)
        cancelled, never = waiting(1, 10_000)
        cancelled.cancel()
        for count in (1, 2, 3):
            assert not three.done()
            await log.append(client_batch())
            found: list[FetchedPartition] = await one
            assert [place.size_bytes for place in found[0].places] == [size_bytes]
            assert three.done() == (count == 3)
        assert [place.size_bytes for place in three.result()[0].places] == [3 * size_bytes]
        assert await late is None, "the time is over: what there is then is the response"
        assert not never.done()
        await log.close()

    run(main())
