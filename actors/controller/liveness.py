"""Whether an actor whose process exists still works: it responds to pings, or it counts as dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ray.exceptions import RayError

T = TypeVar("T")
Ping = Callable[[], Awaitable[Any]]

_SLICES = 10
_MAX_PERIOD_S = 2.0


class Unresponsive(RuntimeError):
    """An actor has not responded to a ping in time: it hangs, is paused, or cannot be reached."""


async def while_alive(call: Awaitable[T], ping: Ping, timeout_s: float) -> T:
    """The call's result or error. Unresponsive once a ping got no response within ``timeout_s``; 0: never.

    A process may take any time to start; the timeout applies after its first response to a ping. RayErrors of a ping
    are ignored: if the process has ended, the call fails.
    """
    running = asyncio.ensure_future(call)
    late = asyncio.ensure_future(_until_late(ping, timeout_s)) if timeout_s else asyncio.Event().wait()
    watching = asyncio.ensure_future(late)
    try:
        await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        raise Unresponsive(f"no answer to a ping for {timeout_s:g} s")
    finally:
        watching.cancel()
        running.cancel()


async def _until_late(ping: Ping, timeout_s: float) -> None:
    await _first(ping)
    while True:
        await asyncio.sleep(min(_MAX_PERIOD_S, timeout_s / 4))
        response = asyncio.ensure_future(ping())
        try:
            if not await _answered(response, timeout_s):
                return
        finally:
            response.cancel()


async def _first(ping: Ping) -> None:
    while True:
        try:
            await ping()
        except RayError:
            await asyncio.sleep(_MAX_PERIOD_S)
        else:
            return


async def _answered(response: asyncio.Future[Any], timeout_s: float) -> bool:
    """Whether the response, or an error, arrives in time. A pause of this process counts as one slice at most."""
    for _ in range(_SLICES):
        await asyncio.wait([response], timeout=timeout_s / _SLICES)
        if response.done():
            response.exception()
            return True
    return False
