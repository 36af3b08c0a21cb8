"""Gateways and standbys: one on each node, whatever a lost controller left."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from muster.actors.controller.one_per_node import PerNode


class Nodes:
    """The actors that run, by name, with their nodes; what PerNode sees of the supervisor."""

    def __init__(self, **homes: str | None) -> None:
        self.actors: dict[str, Any] = {}
        self.per_node = PerNode("gateway", self, self._start)  # type: ignore[arg-type]
        for name, home in homes.items():
            self._run(name.replace("_", "-"), home)

    def _run(self, name: str, home: str | None) -> None:
        """Each begins after those before."""
        started = None if home is None else SimpleNamespace(node_id=home, began_ms=len(self.actors))
        self.actors[name] = SimpleNamespace(name=name, is_alive=True, started=started)

    def _start(self, node_id: str, number: int) -> None:
        self._run(f"gateway-{number}", node_id)

    async def forget(self, name: str) -> None:
        del self.actors[name]

    def follow(self, *alive: str, drained: tuple[str, ...] = ()) -> dict[str, str]:
        asyncio.run(self.per_node.follow(alive, set(alive) - set(drained)))
        return {name: actor.started.node_id for name, actor in self.actors.items()}


def test_each_node_gets_one() -> None:
    assert Nodes().follow("a", "b") == {"gateway-1": "a", "gateway-2": "b"}


def test_the_actor_of_a_lost_node_is_dropped_and_its_number_is_free() -> None:
    nodes = Nodes(gateway_1="a", gateway_2="b", gateway_3="c")
    assert nodes.follow("a", "c") == {"gateway-1": "a", "gateway-3": "c"}
    assert nodes.follow("a", "c", "d") == {"gateway-1": "a", "gateway-2": "d", "gateway-3": "c"}


def test_a_second_one_on_a_node_is_dropped() -> None:
    """The controller was lost together with the node of gateway-2; its successor created gateway-2 on another node."""
    assert Nodes(gateway_1="a", gateway_10="b", gateway_2="a").follow("a", "b") == {"gateway-1": "a", "gateway-10": "b"}


def test_the_one_that_stays_has_clients() -> None:
    """The lost one was gateway-1, so its successor is the one that has just begun."""
    nodes = Nodes(gateway_2="a", gateway_3="b", gateway_1="a")
    assert nodes.follow("a", "b") == {"gateway-2": "a", "gateway-3": "b"}
    assert nodes.follow("a", "b", "c") == {"gateway-1": "c", "gateway-2": "a", "gateway-3": "b"}


def test_the_one_on_a_drained_node_stays_until_it_is_removed() -> None:
    nodes = Nodes(gateway_1="a", gateway_2="b")
    assert nodes.follow("a", "b", drained=("b",)) == {"gateway-1": "a", "gateway-2": "b"}
    assert asyncio.run(nodes.per_node.remove_from("b"))
    assert nodes.follow("a", "b", drained=("b",)) == {"gateway-1": "a"}


def test_nothing_starts_while_the_node_of_one_is_unknown() -> None:
    nodes = Nodes(gateway_1=None)
    asyncio.run(nodes.per_node.follow({"a"}, {"a"}))
    assert list(nodes.actors) == ["gateway-1"]
