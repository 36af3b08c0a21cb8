"""The controller's real part in faults, without Ray: it calls its one gateway directly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from muster.actors.faults.control import FaultControl, Process
from muster.actors.faults.errors import UnknownTarget
from muster.actors.faults.model import Fault
from muster.actors.faults.registry import Book, FaultRegistry
from muster.actors.runtime.process import wall_ms
from muster.gateway.faults.controller import unpacked
from muster.gateway.faults.injection import GatewayFaults
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway

NODE = "n1"


class MayBeAway(Protocol):
    away: bool


class LocalFaults:
    """A :class:`muster.gateway.faults.injection.FaultController`. ``processes``: actors that take signals."""

    def __init__(self, controller: MayBeAway, gateway: Gateway, directory: Path) -> None:
        self.processes: dict[str, Process] = {}
        self._controller = controller
        self.registry = FaultRegistry(directory / "faults.json", wall_ms)
        self.control = FaultControl(self.registry, _Cluster(self, gateway))

    async def book(self) -> Book:
        book: Book = await self._exchange("book")
        return book

    async def inject(self, fault: Fault, by: str) -> dict[str, Any]:
        done: dict[str, Any] = await self._exchange("inject", fault, by)
        return done

    async def held(self, *arguments: Any) -> None:
        await self._exchange("held", *arguments)

    async def faults(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._exchange("faults")
        return found

    async def happened(self, after: list[int] | None) -> dict[str, Any]:
        found: dict[str, Any] = await self._exchange("happened", after)
        return found

    async def clear(self, fault_id: str | None) -> list[str]:
        ended: list[str] = await self._exchange("clear", fault_id)
        return ended

    async def draw(self, fault_id: str) -> int:
        number: int = await self._exchange("draw", fault_id)
        return number

    async def report(self, counts: dict[str, int]) -> None:
        await self._exchange("report", counts)

    async def run(self, node_id: str, work: Callable[..., Any], *arguments: Any) -> Any:
        assert node_id == NODE
        return await asyncio.to_thread(work, *arguments)

    async def _exchange(self, what: str, *arguments: Any) -> Any:
        if self._controller.away:
            raise ControllerUnavailable("away")
        return unpacked(await self.control.handle(what, *arguments))


class _Cluster:
    node_id = NODE

    def __init__(self, faults: LocalFaults, gateway: Gateway) -> None:
        self._faults = faults
        self._gateway = gateway

    def actor_of_group(self, group: str) -> str:
        return f"offsets-{self._gateway.partition_of(group)}"

    def process_of(self, actor: str) -> Process:
        try:
            return self._faults.processes[actor]
        except KeyError:
            raise UnknownTarget(f"there is no {actor}") from None

    def gateways(self) -> list[str]:
        return [f"gateway-{self._gateway.id}"]

    async def publish(self, book: Book, paused: set[str]) -> list[str]:
        assert isinstance(self._gateway.faults, GatewayFaults)
        self._gateway.faults.take(book)
        return []

    async def gather(self, paused: set[str]) -> None:
        """Nothing to do: the one gateway reports before it queries."""

    async def run(self, node_id: str, work: Callable[..., Any], *arguments: Any) -> Any:
        assert node_id == NODE
        return await asyncio.to_thread(work, *arguments)
