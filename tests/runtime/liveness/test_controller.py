"""Which process the watch of the controller ends, and which it does not; without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ray.exceptions import RayError

from muster.actors.runtime.liveness.controller import Process, watch_controller

TIMEOUT_S = 0.2
OLD, NEW = (11, "here"), (12, "elsewhere")


class Controller:
    """Responds to pings as ``process`` until it is silent, or fails."""

    def __init__(self) -> None:
        self.process = OLD
        self.error: Exception | None = None
        self.responds = asyncio.Event()
        self.responds.set()
        self.seen: set[Process] = set()
        self.pinged = asyncio.Event()
        self.ended: list[tuple[str, int]] = []
        self.can_end = True
        self.ends = asyncio.Event()

    async def ping(self) -> Process:
        await self.responds.wait()
        if self.error is not None:
            raise self.error
        self.seen.add(self.process)
        self.pinged.set()
        return self.process

    async def until_seen(self, process: Process) -> None:
        while process not in self.seen:
            self.pinged.clear()
            await self.pinged.wait()

    async def end(self, node_id: str, pid: int) -> bool:
        self.ended.append((node_id, pid))
        self.ends.set()
        return self.can_end


def run(scenario: Callable[[Controller], Awaitable[None]]) -> None:
    async def main() -> None:
        controller = Controller()
        watching = asyncio.create_task(watch_controller(controller.ping, TIMEOUT_S, controller.end))
        async with asyncio.timeout(20):
            await controller.until_seen(OLD)
            await scenario(controller)
        assert not watching.done()
        watching.cancel()

    asyncio.run(main())


def test_the_process_that_fell_silent_is_ended_and_its_successor_is_not() -> None:
    async def scenario(controller: Controller) -> None:
        controller.responds.clear()
        await controller.ends.wait()
        controller.process = NEW
        controller.responds.set()
        await controller.until_seen(NEW)
        assert controller.ended == [(OLD[1], OLD[0])]
        controller.ends.clear()
        controller.responds.clear()
        await controller.ends.wait()
        assert controller.ended[1:] == [(NEW[1], NEW[0])]

    run(scenario)


def test_calls_that_fail_are_no_responses() -> None:
    """With gRPC's keepalive, Ray reports a paused process as unavailable."""

    async def scenario(controller: Controller) -> None:
        controller.error = RayError("unavailable")
        await controller.ends.wait()
        assert controller.ended == [(OLD[1], OLD[0])]

    run(scenario)


def test_a_successor_that_takes_long_to_start_is_left_alone() -> None:
    async def scenario(controller: Controller) -> None:
        controller.responds.clear()
        await controller.ends.wait()
        await asyncio.wait([asyncio.create_task(controller.responds.wait())], timeout=3 * TIMEOUT_S)
        assert controller.ended == [(OLD[1], OLD[0])]

    run(scenario)


def test_a_process_that_cannot_be_ended_is_tried_again_until_another_responds() -> None:
    """Its node cannot be reached; Ray may find that out later, and start another controller elsewhere."""

    async def scenario(controller: Controller) -> None:
        controller.can_end = False
        controller.responds.clear()
        for _ in range(2):
            controller.ends.clear()
            await controller.ends.wait()
        controller.process = NEW
        controller.responds.set()
        await controller.until_seen(NEW)
        assert set(controller.ended) == {(OLD[1], OLD[0])}

    run(scenario)
