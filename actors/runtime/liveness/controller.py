"""Log actors and standbys watch the controller, which watches everything else.

Each of them pings it, and ends it if it does not respond; Ray then restarts it, and the successor's epoch fences it
anyway. They need not agree: each ends the process that has fallen silent, by its pid on its node, never a successor.
The event loop serves a ping, so this also finds a controller that hangs. A lease in ZooKeeper would not: kazoo's
threads keep a session alive. Besides, all leases end in an outage of ZooKeeper, which must replace no one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ray.exceptions import RayError

from muster.actors.runtime.follow import ControllerAway, controller_of
from muster.actors.runtime.liveness.ending import end_process
from muster.actors.runtime.liveness.pings import Ping, until_unresponsive
from muster.actors.runtime.settings import ClusterSettings

log = logging.getLogger(__name__)

_RETRY_S = 1.0
Process = tuple[int, str]
"""Pid and node."""


class ControllerPings:
    """Pings the current controller: to Ray, one that was moved to another node is another actor."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._handle: Any = None

    async def __call__(self) -> Process:
        """Return the process that serves as the controller. Raises RayError."""
        try:
            if self._handle is None:
                self._handle = await controller_of(self._settings)
            process: Process = await self._handle.ping.remote()
        except ValueError as error:
            raise ControllerAway(str(error)) from error
        except RayError:
            self._handle = None
            raise
        return process


async def watch_controller(
    ping: Callable[[], Awaitable[Process]],
    timeout_s: float,
    end: Callable[[str, int], Awaitable[bool]] = end_process,
) -> None:
    """End each process of the controller that does not respond to a ping for ``timeout_s``; runs for ever.

    ``end(node_id, pid)`` returns whether the process has ended, or will. It is repeated until then, or until a
    controller responds.
    """
    last: Process | None = None

    async def noted() -> None:
        nonlocal last
        last = await ping()

    while True:
        await until_unresponsive(noted, timeout_s)
        assert last is not None
        pid, node_id = last
        log.error("the controller, pid %d, is taken for dead: no answer to a ping for %g s", pid, timeout_s)
        while not await end(node_id, pid):
            await asyncio.sleep(_RETRY_S)
            if await _responds(noted):
                break


async def _responds(ping: Ping) -> bool:
    try:
        async with asyncio.timeout(_RETRY_S):
            await ping()
    except Exception:  # whatever Ray raises
        return False
    return True
