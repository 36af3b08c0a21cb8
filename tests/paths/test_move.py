"""Each node is drained in turn and returns, as for its maintenance, while a group consumes."""

from __future__ import annotations

from collections.abc import Callable

from tests.cluster.consumer_groups.groups import sending
from tests.nodes.bench import Bench, moved
from tests.nodes.work import drain, work

PAUSE_S = 0.01
"""Between two records during a move."""


def test_a_group_stays_as_it_is_while_all_actors_move(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    with work(on_nodes, fresh, groups=1) as clients:
        stable = clients.stability()
        for node_id in on_nodes.nodes.nodes:
            shares = moved(on_nodes.until_placed())
            with sending(clients.producer, PAUSE_S):
                done = drain(on_nodes, node_id)
                assert done.returncode == 0, done.stderr
                assert node_id not in {actor["node_id"] for actor in on_nodes.status()["actors"]}
                assert clients.stability() == stable
                assert drain(on_nodes, node_id, "--undo").returncode == 0
                assert on_nodes.until_placed().keys() >= shares.keys()
                clients.learn_addresses()
            clients.go_on()
            assert clients.stability() == stable
