"""Keeps the cluster's actors running: Ray restarts a process, this makes it serve again and says so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.admin import Started

log = logging.getLogger(__name__)

_RETRY_S = 0.1
_FAILED_RETRY_S = 2.0
_AT_ONCE = 4
"""How many of many start side by side: fifty at once would keep each other, and the others, from the processor."""
_STOP_S = 10.0


@dataclass(slots=True)
class Managed:
    """One actor: how to make it, and how it is."""

    name: str
    make: Callable[[], Any]
    """Creates the named actor, or gives the handle of the one that is there."""
    many: bool = False
    """One of many of its kind: they take turns to start."""
    handle: Any = None
    state: str = "starting"
    """starting, alive, restarting, failed or stopped."""
    started: Started | None = None
    starts: int = 0
    error: str | None = None


def detached(cls: type, name: str, namespace: str, *args: Any, node_id: str | None = None) -> Any:
    """Handle of the detached, named actor, created if it is not there; on ``node_id`` if that node can take it.

    It uses no CPU slot (a slot is for work, and these mostly wait), restarts for ever and serves many calls
    at once.
    """
    strategy = NodeAffinitySchedulingStrategy(node_id, soft=True) if node_id else "DEFAULT"
    return (
        ray.remote(cls)
        .options(
            name=name,
            namespace=namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            num_cpus=0,
            max_concurrency=1000,
            scheduling_strategy=strategy,
        )
        .remote(*args)
    )


class Supervisor:
    """Calls ``start()`` on each actor whenever its process is new, and ``park(pid)`` to learn of its death."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.actors: dict[str, Managed] = {}
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._settled = asyncio.Condition()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def manage(self, name: str, make: Callable[[], Any], *, many: bool = False) -> Managed:
        """Begin to keep an actor running; the one that is there if the name is known."""
        if name not in self.actors:
            self.actors[name] = Managed(name, make, many)
            self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(self.actors[name]))
        return self.actors[name]

    async def alive(self, managed: Managed, timeout_s: float) -> bool:
        """Wait until the actor serves, has failed, or the time is over; whether it serves."""
        try:
            async with asyncio.timeout(timeout_s), self._settled:
                await self._settled.wait_for(lambda: managed.state in ("alive", "failed"))
        except TimeoutError:
            return False
        return managed.state == "alive"

    async def _keep(self, managed: Managed) -> None:
        while True:
            try:
                async with self._turns if managed.many else contextlib.nullcontext():
                    await self._begin(managed)
                assert managed.started is not None
                managed.error = None
                await self._set(managed, "alive")
                await managed.handle.park.remote(managed.started.pid)
            except ActorDiedError as error:  # for good: somebody killed it without restart
                log.warning("%s died and is made anew: %s", managed.name, _first_line(error))
                managed.handle = None
            except RayTaskError as error:
                await self._failed(managed, error.cause if error.cause else error)
                with contextlib.suppress(RayError, ValueError):
                    await asyncio.to_thread(ray.kill, managed.handle, no_restart=False)
            except RayActorError as error:
                log.warning("%s is down: %s", managed.name, _first_line(error))
            except Exception as error:  # whatever Ray says: nobody else would try again
                await self._failed(managed, error)
                managed.handle = None
            await self._set(managed, "restarting")
            await asyncio.sleep(_RETRY_S)

    async def _begin(self, managed: Managed) -> None:
        if managed.handle is None:
            managed.handle = await asyncio.to_thread(managed.make)
        managed.started = await managed.handle.start.remote()
        managed.starts += 1

    async def _failed(self, managed: Managed, error: BaseException) -> None:
        """Say so, and wait before the next try. That is a new process: a start that fails halfway may hold a port."""
        managed.error = _first_line(error)
        log.error("%s cannot start: %s", managed.name, managed.error)
        await self._set(managed, "failed")
        await asyncio.sleep(_FAILED_RETRY_S)

    async def _set(self, managed: Managed, state: str) -> None:
        if managed.state == state:
            return
        managed.state = state
        self._changed()
        async with self._settled:
            self._settled.notify_all()

    async def stop(self, names: list[str]) -> None:
        """Stop these actors in order of their kind at once: ask first, then end their processes."""
        for name in names:
            self._tasks.pop(name).cancel()
        await asyncio.gather(*(self._stop(self.actors[name]) for name in names))

    async def _stop(self, managed: Managed) -> None:
        if managed.handle is None:
            return
        try:
            async with asyncio.timeout(_STOP_S):
                await managed.handle.stop.remote()
        except (TimeoutError, RayError) as error:
            log.warning("%s did not stop by itself: %r", managed.name, error)
        managed.state = "stopped"
        await asyncio.to_thread(ray.kill, managed.handle, no_restart=True)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
