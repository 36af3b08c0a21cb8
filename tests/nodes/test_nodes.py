"""Nodes that are lost and come while real clients work; what the clients must not notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placement.rendezvous import choose
from tests.muster_process import eventually
from tests.nodes.bench import SETTLED_S, Bench
from tests.nodes.work import moved, work


@pytest.mark.timeout(240)
def test_a_node_is_lost_and_another_comes(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    nodes = on_nodes.nodes
    with work(on_nodes, fresh) as clients:
        before = on_nodes.until_settled()
        stable = clients.stability()
        lost = max(
            (node for node in nodes.nodes.values() if node != nodes.head),
            key=lambda node: [*moved(before).values()].count(node.node_id),
        )
        assert lost.node_id in moved(before).values()

        nodes.kill(lost)
        clients.go_on()
        without = on_nodes.until_settled()
        assert moved(without) == {name: choose(name, list(nodes.nodes)) for name in moved(before)}
        clients.go_on()
        assert clients.stability() == stable

        came = nodes.add()
        share = {name for name in moved(without) if choose(name, list(nodes.nodes)) == came.node_id}
        eventually(
            on_nodes.until_settled,
            lambda homes: {name for name, home in moved(homes).items() if home == came.node_id} == share,
            "the node that came has its share",
            SETTLED_S,
        )
        clients.go_on()
        after = on_nodes.until_settled()
        assert {name for name in without if name in after and without[name] != after[name]} <= share
        assert clients.stability() == stable
