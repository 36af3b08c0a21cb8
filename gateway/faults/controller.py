"""The controller's part in faults, called by a gateway over Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import ray
from ray.exceptions import RayError

from muster.actors.controller.faults_over_ray import run_on
from muster.actors.faults import errors
from muster.actors.faults.model import Fault
from muster.actors.faults.registry import Book
from muster.actors.runtime.errors import last_line
from muster.gateway.listener.controller import ControllerUnavailable

_REQUEST_TIMEOUT_S = 15.0
_DRAW_S = 5.0
"""A request waits for it."""


class RayFaults:
    """A :class:`muster.gateway.faults.injection.FaultController`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def book(self) -> Book:
        """Return the faults in force."""
        book: Book = await self._call(_REQUEST_TIMEOUT_S, "book")
        return book

    async def inject(self, fault: Fault, by: str) -> dict[str, Any]:
        done: dict[str, Any] = await self._call(_REQUEST_TIMEOUT_S, "inject", fault, by)
        return done

    async def held(self, *arguments: Any) -> None:
        await self._call(_REQUEST_TIMEOUT_S, "held", *arguments)

    async def faults(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call(_REQUEST_TIMEOUT_S, "faults")
        return found

    async def happened(self, after: list[int] | None) -> dict[str, Any]:
        found: dict[str, Any] = await self._call(_REQUEST_TIMEOUT_S, "happened", after)
        return found

    async def clear(self, fault_id: str | None) -> list[str]:
        ended: list[str] = await self._call(_REQUEST_TIMEOUT_S, "clear", fault_id)
        return ended

    async def draw(self, fault_id: str) -> int:
        number: int = await self._call(_DRAW_S, "draw", fault_id)
        return number

    async def report(self, counts: dict[str, int]) -> None:
        await self._call(_REQUEST_TIMEOUT_S, "report", counts)

    async def run(self, node_id: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function on that node, for what the controller cannot do itself. Raises FaultError."""
        if node_id == ray.get_runtime_context().get_node_id():
            return await asyncio.to_thread(work, *arguments)
        return await run_on(node_id, work, *arguments)

    async def _call(self, timeout_s: float, what: str, *arguments: Any) -> Any:
        return unpacked(await _in_time(timeout_s, self._handle.faults.remote(what, *arguments)))


async def _in_time(timeout_s: float, call: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        async with asyncio.timeout(timeout_s):
            return await call
    except (RayError, ValueError, TimeoutError) as error:  # ValueError: there is no controller now
        text = last_line(error)
        raise ControllerUnavailable(text) from error


def unpacked(response: dict[str, Any]) -> Any:
    """Return the result of ``FaultControl.handle``; raises the FaultError with which it refuses."""
    if "refused" in response:
        raise getattr(errors, response["kind"])(response["refused"])
    return response["answer"]
