"""Faults in a cluster on Ray: locates actors, informs gateways, and runs functions on other nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from muster.actors.controller.managed import Managed
from muster.actors.controller.supervisor import Supervisor
from muster.actors.faults.control import Process
from muster.actors.faults.errors import FaultError, UnknownTarget
from muster.actors.faults.fields import near_miss
from muster.actors.faults.registry import Book
from muster.actors.runtime.errors import last_line
from muster.placement.hashing import partition_for

log = logging.getLogger(__name__)

_PUBLISH_S = 5.0
"""How long a live gateway may take to respond before the fault counts as injected without it."""
_ELSEWHERE_S = 30.0


class RayCluster:
    """For the controller's process; an :class:`muster.actors.faults.control.Cluster`."""

    def __init__(self, supervisor: Supervisor, own: Process, offsets_partitions: Callable[[], int]) -> None:
        """``own``: the process that the controller itself runs in."""
        self._supervisor = supervisor
        self._own = own
        self._offsets_partitions = offsets_partitions

    @property
    def node_id(self) -> str:
        return self._own.node_id

    def actor_of_group(self, group: str) -> str:
        return f"offsets-{partition_for(group, self._offsets_partitions())}"

    def process_of(self, actor: str) -> Process:
        if actor == "controller":
            return self._own
        managed = self._supervisor.actors.get(actor)
        if managed is None:
            hint = near_miss(actor, self._supervisor.actors)
            raise UnknownTarget(f"there is no {actor}, or it never ran{hint}; muster status shows what there is")
        if managed.started is None or not managed.is_alive:
            raise UnknownTarget(f"{actor} does not run now, it is {managed.state.value}")
        return Process(managed.started.pid, managed.started.node_id)

    def gateways(self) -> list[str]:
        return [gateway.name for gateway in self._gateways() if gateway.is_alive]

    def _gateways(self) -> list[Managed]:
        actors = list(self._supervisor.actors.values())
        return [managed for managed in actors if managed.name.startswith("gateway-") and managed.handle is not None]

    async def publish(self, book: Book, paused: set[str]) -> list[str]:
        """Gateways that are still starting get it too: they may have requested the faults a moment before."""
        return await self._each(lambda gateway: gateway.take_faults.remote(book), paused)

    async def gather(self, paused: set[str]) -> None:
        await self._each(lambda gateway: gateway.report_faults.remote(), paused)

    async def _each(self, request: Callable[[Any], Any], paused: set[str]) -> list[str]:
        calls = [(gateway, asyncio.ensure_future(_await_call(request(gateway.handle)))) for gateway in self._gateways()]
        waited = {call for gateway, call in calls if gateway.is_alive and gateway.name not in paused}
        if waited:
            await asyncio.wait(waited, timeout=_PUBLISH_S)
        return [gateway.name for gateway, call in calls if call in waited and not call.done()]

    async def run(self, node_id: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run the work there. Raises FaultError if that is impossible."""
        if node_id == self._own.node_id:
            return await asyncio.to_thread(work, *arguments)
        return await run_on(node_id, work, *arguments)


async def _await_call(call: Any) -> None:
    """Await the call, but ignore a dead gateway: it requests the faults when it starts again."""
    try:
        await call
    except RayError as error:
        log.info("a gateway did not hear of the faults: %s", type(error).__name__)


async def run_on(node_id: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Call the function in a Ray process on that node. Raises FaultError if it fails or the node does not respond."""
    here = NodeAffinitySchedulingStrategy(node_id, soft=False)
    task = ray.remote(work).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
    try:
        async with asyncio.timeout(_ELSEWHERE_S):
            return await task.remote(*arguments)
    except (RayError, TimeoutError) as error:
        cause = last_line(error)
        raise FaultError(f"node {node_id} failed: {cause}") from error
