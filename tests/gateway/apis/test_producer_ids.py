"""Producer ids in the gateway outlast an unavailable controller."""

from __future__ import annotations

import asyncio

import pytest

from muster.gateway.listener.controller import ProducerIds


class Source:
    """Blocks of 200 ids, while it is available."""

    def __init__(self) -> None:
        self.there = True
        self.given = 0

    async def next_block(self) -> range:
        await asyncio.sleep(0)
        if not self.there:
            raise ConnectionError("away")
        self.given += 1
        return range(200 * (self.given - 1), 200 * self.given)


def test_ids_are_given_in_order_and_the_next_block_is_there_in_time() -> None:
    async def run() -> tuple[list[int], int]:
        source = Source()
        ids = ProducerIds(source.next_block)
        ids.prepare()
        first = [await ids.next() for _ in range(150)]
        for _ in range(100):  # any request for another block has run
            await asyncio.sleep(0)
        return first, source.given

    first, blocks = asyncio.run(run())
    assert first == list(range(150))
    assert blocks == 2


def test_an_outage_is_noticed_only_when_no_id_is_left_and_ends_with_the_source() -> None:
    async def run() -> None:
        source = Source()
        ids = ProducerIds(source.next_block)
        taken = [await ids.next()]
        source.there = False
        taken += [await ids.next() for _ in range(199)]
        for failed in await asyncio.gather(*(ids.next() for _ in range(3)), return_exceptions=True):
            assert isinstance(failed, ConnectionError)
        source.there = True
        taken += await asyncio.gather(*(ids.next() for _ in range(300)))
        assert sorted(taken) == list(range(500))

    asyncio.run(run())


def test_one_who_gives_up_does_not_take_the_block_from_the_others() -> None:
    async def run() -> list[int]:
        ids = ProducerIds(Source().next_block)
        impatient, patient = (asyncio.ensure_future(ids.next()) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        return [await patient]

    assert asyncio.run(run()) == [0]
