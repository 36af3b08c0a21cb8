"""An actor that is dropped while Ray creates it: what was created is ended."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from muster.actors.controller import supervisor
from muster.actors.controller.lifecycle import Lifecycle
from muster.actors.controller.supervisor import NodeAway, Supervisor
from muster.actors.runtime.process import wall_ms


class Actor:
    """A handle, as far as a stop uses it."""

    def __init__(self) -> None:
        self.stop = self

    async def remote(self) -> None:
        return None


async def no_epoch(role: str, owner: str) -> int:
    raise AssertionError


def supervised() -> Supervisor:
    lifecycle = Lifecycle(lambda row: None, wall_ms)
    return Supervisor(lambda: None, no_epoch, lifecycle=lifecycle)


def test_an_actor_that_is_forgotten_while_it_is_created_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next actor of that name, on another node, would be this one."""
    ended: list[Any] = []
    monkeypatch.setattr("ray.kill", lambda handle, no_restart: ended.append(handle))
    begun, goes_on, made = threading.Event(), threading.Event(), Actor()

    def make(node_id: str | None) -> Actor:
        begun.set()
        assert goes_on.wait(20)
        return made

    async def run() -> None:
        supervising = supervised()
        supervising.manage("gateway-1", make)
        await asyncio.to_thread(begun.wait, 20)
        asyncio.get_running_loop().call_later(0.05, goes_on.set)
        await supervising.forget("gateway-1")
        assert not supervising.actors

    asyncio.run(run())
    assert ended == [made]


def test_an_actor_waits_for_its_only_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and can be forgotten meanwhile."""
    monkeypatch.setattr(supervisor, "_AWAY_RETRY_S", 0.01)
    tried = threading.Semaphore(0)

    def make(node_id: str | None) -> Actor:
        tried.release()
        raise NodeAway("no node with address 10.0.0.11 is alive")

    async def run() -> None:
        supervising = supervised()
        managed = supervising.manage("zookeeper-2", make)
        for _ in range(3):
            assert await asyncio.to_thread(tried.acquire, timeout=20)
        assert managed.error == "no node with address 10.0.0.11 is alive"
        await supervising.forget("zookeeper-2")

    asyncio.run(run())
