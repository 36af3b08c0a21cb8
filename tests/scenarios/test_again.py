"""A scenario may be played again on the same server: the remains of the first time do not interfere."""

from __future__ import annotations

from pathlib import Path

from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.serving import serving
from tests.scenarios.core_world import BROKER
from tests.scenarios.language import load
from tests.scenarios.play import play
from tests.scenarios.socket_world import SocketWorld
from tests.scenarios.suites import KAFKA


def test_a_group_that_is_still_there(zk: ZooKeeperClient, tmp_path: Path) -> None:
    scenario = load(KAFKA / "rebalance_deadline_is_not_moved_by_later_joins.scenario")
    with serving(zk, tmp_path, BROKER, with_actors=True) as served, SocketWorld(served.port) as world:
        world.prepare()
        first, again, third = (play(scenario, world, time_played=number) for number in (1, 2, 3))
    assert first.text() == again.text() == third.text() == scenario.text()
