"""How the controller knows which gateways have followed, and how long it waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from muster.actors.controller import view_feed
from muster.actors.controller.view_feed import ViewFeed
from muster.placement.view import Broker, ClusterView

LONG_S = 60.0


def view(version: int, *gateways: int) -> ClusterView:
    brokers = tuple(Broker(id=number, host="127.0.0.1", port=9092, node_id="n") for number in gateways)
    return ClusterView(
        cluster_id="c", controller_epoch=1, version=version, brokers=brokers, topics={}, logs={}, offsets={}
    )


def in_a_loop(test: Callable[[ViewFeed], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        async def bounded() -> None:
            async with asyncio.timeout(LONG_S):
                await test(ViewFeed())

        asyncio.run(bounded())

    run.__name__ = test.__name__
    return run


async def polls(feed: ViewFeed, name: str, order: tuple[int, int] | None) -> asyncio.Task[ClusterView | None]:
    """Start a poll that has reached the controller."""
    task = asyncio.create_task(feed.after(order, name))
    await asyncio.sleep(0)
    return task


async def waits(feed: ViewFeed, timeout_s: float = LONG_S) -> asyncio.Task[bool]:
    task = asyncio.create_task(feed.until_followed(timeout_s))
    await asyncio.sleep(0)
    return task


@in_a_loop
async def test_a_poll_gets_the_newest_view_once(feed: ViewFeed) -> None:
    poll = await polls(feed, "gateway-1", None)
    assert not poll.done()
    feed.publish(view(1, 1))
    assert (await poll) == view(1, 1)
    again = await polls(feed, "gateway-1", (1, 1))
    assert not again.done()
    feed.publish(view(2, 1))
    feed.publish(view(3, 1))
    assert (await again) == view(3, 1)


@in_a_loop
async def test_every_gateway_that_serves_is_waited_for(feed: ViewFeed) -> None:
    feed.publish(view(1, 1, 2))
    followed = await waits(feed)
    for name in ("gateway-1", "gateway-2"):
        assert (await feed.after(None, name)) == view(1, 1, 2)
    await polls(feed, "gateway-1", (1, 1))
    await polls(feed, "gateway-3", (1, 1))
    assert not followed.done()
    await polls(feed, "gateway-2", (1, 1))
    assert await followed


@in_a_loop
async def test_views_that_come_meanwhile_are_not_waited_for(feed: ViewFeed) -> None:
    feed.publish(view(1, 1))
    followed = await waits(feed)
    feed.publish(view(2, 1))
    await polls(feed, "gateway-1", (1, 1))
    assert await followed


@in_a_loop
async def test_a_gateway_that_died_is_not_waited_for(feed: ViewFeed) -> None:
    feed.publish(view(1, 1, 2))
    followed = await waits(feed)
    await polls(feed, "gateway-1", (1, 1))
    await asyncio.sleep(0)  # so that it waits again, for the other one alone
    assert not followed.done()
    feed.publish(view(2, 1))
    assert await followed


@in_a_loop
async def test_a_new_process_of_a_gateway_has_nothing(feed: ViewFeed) -> None:
    feed.publish(view(1, 1))
    await polls(feed, "gateway-1", (1, 1))
    assert await feed.until_followed(LONG_S)
    await polls(feed, "gateway-1", None)
    followed = await waits(feed)
    assert not followed.done()
    await polls(feed, "gateway-1", (1, 1))
    assert await followed


@in_a_loop
async def test_what_a_former_controller_published_does_not_count(feed: ViewFeed) -> None:
    feed.publish(replace(view(1, 1), controller_epoch=2))
    await polls(feed, "gateway-1", (1, 700))
    followed = await waits(feed)
    assert not followed.done()
    await polls(feed, "gateway-1", (2, 1))
    assert await followed


def test_a_gateway_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_feed, "PATIENCE_S", 0.05)

    @in_a_loop
    async def test(feed: ViewFeed) -> None:
        feed.publish(view(1, 1, 2))
        await polls(feed, "gateway-1", (1, 1))
        assert not await feed.until_followed(LONG_S)
        monkeypatch.setattr(view_feed, "PATIENCE_S", LONG_S)
        assert not await feed.until_followed(LONG_S)
        await polls(feed, "gateway-2", None)
        followed = await waits(feed)
        assert not followed.done()
        await polls(feed, "gateway-2", (1, 1))
        assert await followed

    test()


@in_a_loop
async def test_a_request_of_little_time_says_nothing_of_a_gateway(feed: ViewFeed) -> None:
    feed.publish(view(1, 1))
    assert not await feed.until_followed(0.01)
    followed = await waits(feed)
    assert not followed.done()
    await polls(feed, "gateway-1", (1, 1))
    assert await followed
