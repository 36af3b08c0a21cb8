"""Actors of which every node of the Ray cluster has one: gateways, standbys."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.actors.controller.managed import Managed
    from muster.actors.controller.supervisor import Supervisor


class PerNode:
    """Actors ``<kind>-<number>``. A new node gets the lowest free number, such as that of a lost actor."""

    def __init__(self, kind: str, supervisor: Supervisor, manage_on: Callable[[str, int], object]) -> None:
        """``manage_on(node_id, number)`` starts to manage ``<kind>-<number>`` on that node and on no other."""
        self.kind = kind
        self._supervisor = supervisor
        self._manage_on = manage_on
        self._homes: dict[str, str] = {}

    async def follow(self, alive: Collection[str], wanted: Collection[str]) -> None:
        """Have one actor on each of the ``wanted`` nodes; drop those of nodes that are not ``alive``, and second ones.

        A node gets a second one if a controller is lost together with another node: its successor knows the name of
        the actor that was lost, not its node, and creates it anew. The one that began first has clients, and stays.
        Besides, librdkafka looks for a coordinator at its old address as long as FindCoordinator returns the same id.
        """
        for name in self._superfluous(alive):
            await self._forget(name)
        found = self._found()
        if None in found.values():
            return  # a predecessor's actor whose node is not known yet
        free = (number for number in range(1, len(found) + len(wanted) + 1) if f"{self.kind}-{number}" not in found)
        for node_id, number in zip(sorted(set(wanted) - set(found.values())), free, strict=False):
            self._homes[f"{self.kind}-{number}"] = node_id
            self._manage_on(node_id, number)

    def _superfluous(self, alive: Collection[str]) -> list[str]:
        found, taken = [], set[str]()
        for name, home in sorted(self._found().items(), key=lambda item: self._age(item[0])):
            if home is None:
                continue
            if home not in alive or home in taken:
                found.append(name)
            taken.add(home)
        return found

    def _age(self, name: str) -> tuple[float, int]:
        """Orders actors of one node: the first that began, and those that do not serve yet behind the others."""
        started = self._supervisor.actors[name].started
        return (started.began_ms if started else math.inf, int(name.rpartition("-")[2]))

    async def remove_from(self, node_id: str) -> bool:
        """End the actor on that node. Returns whether there was one."""
        names = [name for name, home in self._found().items() if home == node_id]
        for name in names:
            await self._forget(name)
        return bool(names)

    def serves_on(self, node_id: str) -> bool:
        """Whether the actor on that node serves."""
        return any(self._supervisor.actors[name].is_alive for name, home in self._found().items() if home == node_id)

    def _found(self) -> dict[str, str | None]:
        """Return the node of each actor by name; None while it is not known."""
        actors = self._supervisor.actors
        return {name: self._home(managed) for name, managed in actors.items() if name.startswith(f"{self.kind}-")}

    def _home(self, managed: Managed) -> str | None:
        if managed.started is not None:
            self._homes[managed.name] = managed.started.node_id
        return self._homes.get(managed.name)

    async def _forget(self, name: str) -> None:
        await self._supervisor.forget(name)
        self._homes.pop(name, None)
