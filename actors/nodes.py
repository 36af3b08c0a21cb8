"""The nodes of the Ray cluster, as the controller follows them: each gets a gateway and a standby."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import ray
from ray.exceptions import RayError

from actors.supervisor import Managed, Supervisor

log = logging.getLogger(__name__)

_NODES_S = 5.0


def live_node_ids() -> list[str]:
    """Ray's ids of the nodes that are alive; blocking. RayError."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return [node["NodeID"] for node in nodes if node["Alive"]]


class NodeFollower:
    """Has one actor of a kind on every node of the Ray cluster, also on those that come later."""

    def __init__(self, supervisor: Supervisor, kind: str, manage_on: Callable[[str, int], None]) -> None:
        """``manage_on(node_id, number)`` begins to keep ``<kind>-<number>`` running on that node."""
        self._supervisor = supervisor
        self._kind = kind
        self._manage_on = manage_on

    async def run(self) -> None:
        """For as long as the controller lives."""
        while True:
            starting = any(managed.state == "starting" for managed in self._those())
            if not starting:
                await self._add_missing()
            await asyncio.sleep(0.5 if starting else _NODES_S)

    def _those(self) -> list[Managed]:
        return [managed for managed in self._supervisor.actors.values() if managed.name.startswith(f"{self._kind}-")]

    async def _add_missing(self) -> None:
        known = self._those()
        served = {managed.started.node_id for managed in known if managed.started}
        numbers = [int(managed.name.partition("-")[2]) for managed in known]
        missing = [node_id for node_id in await self._live_nodes() if node_id not in served]
        for number, node_id in enumerate(missing, max(numbers, default=0) + 1):
            self._manage_on(node_id, number)

    async def _live_nodes(self) -> list[str]:
        try:
            return await asyncio.to_thread(live_node_ids)
        except RayError as error:
            log.warning("the nodes cannot be listed now: %s", error)
            return []
