"""Whether an actor whose process exists still works: it responds to pings, or it counts as dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")
Ping = Callable[[], Awaitable[Any]]

_SLICES = 10
_MAX_PERIOD_S = 2.0


class Unresponsive(RuntimeError):
    """An actor has not responded to a ping in time: it hangs, is paused, or cannot be reached."""


async def while_alive(call: Awaitable[T], ping: Ping, timeout_s: float) -> T:
    """Return the call's result or error. Raises Unresponsive once no ping got a response for ``timeout_s``; 0: never.

    A process may take any time to start; the timeout applies after its first response to a ping. An error is no
    response, and the next ping follows: with gRPC's keepalive, calls of a paused process fail instead of waiting. If
    the process has ended, the call fails as well, and that counts.
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


async def until_unresponsive(ping: Ping, timeout_s: float) -> None:
    """Return once no ping got a response for ``timeout_s``, as :func:`while_alive` counts; 0: never."""
    try:
        await while_alive(asyncio.Event().wait(), ping, timeout_s)
    except Unresponsive:
        return


async def gives_sign(ended: Awaitable[None], ping: Ping, timeout_s: float) -> bool:
    """Whether a ping gets a response, or ``ended`` returns, within ``timeout_s``; returns as soon as that is known."""
    watched = [asyncio.ensure_future(_answered(ping, timeout_s)), asyncio.ensure_future(ended)]
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        return watched[1].done() or bool(watched[0].result())
    finally:
        for each in watched:
            each.cancel()


async def _until_late(ping: Ping, timeout_s: float) -> None:
    await _first(ping)
    while True:
        await asyncio.sleep(min(_MAX_PERIOD_S, timeout_s / 4))
        if not await _answered(ping, timeout_s):
            return


async def _first(ping: Ping) -> None:
    while True:
        try:
            await ping()
        except Exception:  # whatever Ray raises
            await asyncio.sleep(_MAX_PERIOD_S)
        else:
            return


async def _answered(ping: Ping, timeout_s: float) -> bool:
    """Whether a response arrives in time. A pause of this process counts as one slice at most."""
    slice_s = timeout_s / _SLICES
    response = asyncio.ensure_future(ping())
    try:
        for _ in range(_SLICES):
            await asyncio.wait([response], timeout=slice_s)
            if not response.done():
                continue
            if response.exception() is None:
                return True
            await asyncio.sleep(slice_s)
            response = asyncio.ensure_future(ping())
        return False
    finally:
        response.cancel()
