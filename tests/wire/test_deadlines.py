"""Timeouts of many requests with one timer, on a real loop."""

from __future__ import annotations

import asyncio

from muster.actors.wire.deadlines import Deadlines


def test_tokens_expire_after_their_time_and_at_most_a_tick_later() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        expired: dict[int, float] = {}
        all_expired = asyncio.Event()

        def expire(token: int) -> None:
            expired[token] = loop.time()
            if len(expired) == len(timeouts):
                all_expired.set()

        deadlines = Deadlines(expire)
        timeouts = {1: 0.3, 2: 0.0, 3: 1.4, 4: 0.3}
        began = loop.time()
        for token, timeout_s in timeouts.items():
            deadlines.add(token, timeout_s)
        await asyncio.wait_for(all_expired.wait(), 20)
        assert all(expired[token] - began >= timeout_s for token, timeout_s in timeouts.items())
        assert list(expired) == sorted(expired, key=lambda token: (int(began + timeouts[token]), token))
        assert deadlines._timer is None or not deadlines._tokens

    asyncio.run(main())


def test_nothing_expires_once_it_is_closed() -> None:
    async def main() -> None:
        expired: list[int] = []
        closed, open_still = Deadlines(expired.append), asyncio.Event()
        closed.add(1, 0.0)
        closed.close()
        Deadlines(lambda token: open_still.set()).add(2, 0.0)
        await asyncio.wait_for(open_still.wait(), 20)
        assert expired == []

    asyncio.run(main())
