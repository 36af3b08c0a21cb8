"""When a process counts as hanging, and how its end is noticed; with real processes, without Ray."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time

import pytest
from ray.exceptions import RayError

from muster.actors.runtime.liveness.pings import Unresponsive, gives_sign, while_alive
from muster.actors.runtime.ray.processes import NotAnActor, signal_process, until_process_ends

TIMEOUT_S = 0.2


async def never() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise RayError("unavailable")


async def until(event: asyncio.Event) -> None:
    await event.wait()


class Actor:
    """Answers pings until it hangs."""

    def __init__(self) -> None:
        self.responses = asyncio.Event()
        self.responses.set()
        self.pinged = asyncio.Event()

    async def ping(self) -> None:
        self.pinged.set()
        await self.responses.wait()


async def watched(actor: Actor) -> None:
    await while_alive(never(), actor.ping, TIMEOUT_S)


def test_an_actor_that_hangs_is_unresponsive() -> None:
    async def scenario() -> None:
        actor = Actor()
        watching = asyncio.create_task(watched(actor))
        await actor.pinged.wait()
        actor.responses.clear()
        with pytest.raises(Unresponsive, match=r"no answer to a ping for 0\.2 s"):
            await watching

    asyncio.run(scenario())


def test_an_actor_that_has_not_come_up_yet_may_take_any_time() -> None:
    async def scenario() -> None:
        actor = Actor()
        actor.responses.clear()
        watching = asyncio.create_task(watched(actor))
        assert not (await asyncio.wait([watching], timeout=3 * TIMEOUT_S))[0]
        watching.cancel()

    asyncio.run(scenario())


def test_a_pause_of_the_watcher_itself_is_not_held_against_the_actor() -> None:
    async def scenario() -> None:
        actor = Actor()
        watching = asyncio.create_task(watched(actor))
        await actor.pinged.wait()
        actor.pinged.clear()
        actor.responses.clear()
        await actor.pinged.wait()
        time.sleep(3 * TIMEOUT_S)  # noqa: ASYNC251 - nothing of this process runs, as after SIGSTOP
        actor.responses.set()
        assert not (await asyncio.wait([watching], timeout=2 * TIMEOUT_S))[0]
        watching.cancel()

    asyncio.run(scenario())


def test_without_a_timeout_there_is_no_ping() -> None:
    async def response() -> int:
        return 7

    async def ping() -> None:
        raise AssertionError("a ping")

    assert asyncio.run(while_alive(response(), ping, 0)) == 7


def test_a_process_that_neither_responds_nor_ends_gives_no_sign() -> None:
    async def scenario() -> None:
        actor = Actor()
        assert await gives_sign(never(), actor.ping, TIMEOUT_S)
        actor.responses.clear()
        assert not await gives_sign(never(), actor.ping, TIMEOUT_S)
        assert not await gives_sign(never(), fails, TIMEOUT_S)
        ended = asyncio.Event()
        waiting = asyncio.create_task(gives_sign(until(ended), actor.ping, 20))
        ended.set()
        assert await waiting

    asyncio.run(scenario())


def test_calls_that_fail_are_no_responses() -> None:
    """With gRPC's keepalive, Ray reports a process that is paused as unavailable."""

    async def scenario() -> None:
        first = iter([True])

        async def ping() -> None:
            if not next(first, False):
                raise RayError("unavailable")

        with pytest.raises(Unresponsive):
            await while_alive(never(), ping, TIMEOUT_S)

    asyncio.run(scenario())


def test_the_end_of_a_process_is_noticed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:

        async def scenario() -> None:
            ending = asyncio.create_task(until_process_ends(process.pid))
            assert not (await asyncio.wait([ending], timeout=0.05))[0]
            process.kill()
            async with asyncio.timeout(30):
                await ending

        asyncio.run(scenario())
    asyncio.run(until_process_ends(process.pid))  # already ended


def test_only_actors_are_signalled() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(NotAnActor):
            signal_process(process.pid, signal.SIGKILL)
        assert process.poll() is None
        process.kill()
