"""The controller's node is drained and returns, as for its maintenance, while a group consumes.

The other node's gateway stays. When both are drained in turn, a client may know no gateway that is left, because on one
machine each returns with another port.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.cluster.consumer_groups.groups import sending
from tests.nodes.bench import Bench, moved
from tests.nodes.work import drain, work

PAUSE_S = 0.01
"""Between two records during a move."""


def test_a_group_stays_as_it_is_while_actors_move(on_nodes: Bench, fresh: Callable[[str], str]) -> None:
    with work(on_nodes, fresh, groups=1) as clients:
        stable, homes = clients.stability(), on_nodes.until_placed()
        node_id = homes["controller"]
        assert node_id in moved(homes).values()
        with sending(clients.producer, PAUSE_S):
            done = drain(on_nodes, node_id)
            assert done.returncode == 0, done.stderr
            assert node_id not in {actor["node_id"] for actor in on_nodes.status()["actors"]}
            assert clients.stability() == stable
            assert drain(on_nodes, node_id, "--undo").returncode == 0
            assert on_nodes.until_placed().keys() >= homes.keys()
        clients.go_on()
        assert clients.stability() == stable
