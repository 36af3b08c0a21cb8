"""Logins take turns by host: those of one host do not keep out the others'."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from muster.actors.config import MusterConfig
from muster.gateway.security.credentials import write
from muster.gateway.security.sasl import Sasl
from muster.gateway.security.scram import ScramCredential
from muster.gateway.security.turns import TooBusy, Turns
from tests.gateway.sasl_login import plain

T = TypeVar("T")

WAIT_S = 20.0


class Announced(Turns):
    """Turns that say what comes."""

    def __init__(self, threads: int, max_waiting: int) -> None:
        super().__init__(threads, max_waiting)
        self.came: asyncio.Queue[str] = asyncio.Queue()
        """Hosts."""

    async def run(self, host: str, work: Callable[[], T]) -> T:
        self.came.put_nowait(host)
        return await super().run(host, work)


class Busy:
    """Turns with one thread, which is busy until it is released."""

    def __init__(self, max_waiting: int = 100) -> None:
        self.turns = Announced(threads=1, max_waiting=max_waiting)
        self.release = threading.Event()
        self.began: list[str] = []
        self._running = asyncio.ensure_future(Turns.run(self.turns, "busy", lambda: self.release.wait(WAIT_S)))

    async def add(self, host: str, name: str | None = None) -> asyncio.Task[None]:
        """Work that waits for its turn when this returns."""
        task = asyncio.create_task(self.turns.run(host, lambda: self.began.append(name or host)))
        await asyncio.sleep(0)
        return task

    async def until_waiting(self, count: int) -> None:
        """Until that many more wait for their turn."""
        for _ in range(count):
            await asyncio.wait_for(self.turns.came.get(), WAIT_S)

    async def end(self, *tasks: asyncio.Task[None]) -> list[Any]:
        """End these; return their results."""
        self.release.set()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WAIT_S)
        assert await self._running
        self.turns.close()
        return results


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_hosts_take_turns() -> None:
    async def test() -> None:
        busy = Busy()
        tasks = [await busy.add("flood", f"flood {number}") for number in range(50)]
        tasks += [await busy.add("one"), await busy.add("two"), await busy.add("one", "one again")]
        await busy.end(*tasks)
        assert busy.began[:6] == ["flood 0", "one", "two", "flood 1", "one again", "flood 2"]
        assert len(busy.began) == 53

    run(test)


def test_beyond_the_limit_the_host_with_the_most_is_refused() -> None:
    async def test() -> None:
        busy = Busy(max_waiting=10)
        flood = [await busy.add("flood", f"flood {number}") for number in range(30)]
        one = await busy.add("one")
        results = await busy.end(*flood, one)
        assert [type(result) for result in results] == [type(None)] * 9 + [TooBusy] * 21 + [type(None)]
        assert "most of them from flood" in str(results[-2])

    run(test)


def test_a_client_that_leaves_gives_its_turn_back() -> None:
    async def test() -> None:
        busy = Busy(max_waiting=3)
        left = [await busy.add("flood", f"left {number}") for number in range(3)]
        one = asyncio.create_task(busy.turns.run("one", lambda: busy.began.append("one")))
        for task in left:
            task.cancel()  # they run after the other one
        results = await busy.end(*left, one)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 3 + [type(None)]
        assert busy.began == ["one"]
        other = Turns(threads=1)
        assert await asyncio.wait_for(other.run("a", lambda: 1), WAIT_S) == 1
        other.close()

    run(test)


def test_a_login_that_is_left_while_it_is_its_turn_passes_it_on() -> None:
    async def test() -> None:
        busy = Busy()
        left, one = await busy.add("left"), await busy.add("one")
        busy.release.set()
        while not busy.began:
            left.cancel()
            await asyncio.sleep(0)
        await busy.end(left, one)
        assert busy.began[-1] == "one"

    run(test)


@pytest.mark.parametrize("check", ["login", "http"])
def test_logins_by_plain_take_turns_by_host(tmp_path: Path, check: str) -> None:
    users = tmp_path / "users.properties"
    write(users, {"ann": {"SCRAM-SHA-256": ScramCredential.of_password("SCRAM-SHA-256", "secret")}})

    async def test() -> None:
        sasl = Sasl.of(
            MusterConfig.from_properties(
                {
                    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                    "sasl.enabled.mechanisms": "PLAIN",
                    "sasl.credentials.file": str(users),
                }
            )
        )
        assert sasl is not None
        busy, ended = Busy(), list[str]()
        sasl.turns = busy.turns

        async def log_in(host: str) -> None:
            if check == "http":
                assert await sasl.is_password("ann", "secret", host)
            else:
                exchange = await sasl.exchange("PLAIN", host)
                await exchange.respond(plain("ann", "secret"))
                assert exchange.login is not None
            ended.append(host)

        flood = [asyncio.create_task(log_in("flood")) for _ in range(5)]
        await busy.until_waiting(5)
        one = asyncio.create_task(log_in("one"))
        await busy.until_waiting(1)
        await busy.end(*flood, one)
        assert ended.index("one") <= 1
        assert len(ended) == 6
        sasl.close()

    run(test)
