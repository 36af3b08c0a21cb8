"""Properties of the ZooKeeper servers that Muster runs itself."""

from __future__ import annotations

import pytest

from muster.actors.config import MusterConfig


def test_three_ports_in_the_order_of_zookeeper() -> None:
    assert MusterConfig.from_properties({}).zookeeper_ports == (2181, 2888, 3888)
    config = MusterConfig.from_properties({"zookeeper.server.ports": "12181, 12888, 13888"})
    assert config.zookeeper_ports == (12181, 12888, 13888)


@pytest.mark.parametrize("ports", ["2181", "2181,2888", "2181,2888,2888", "0,2888,3888", "a,b,c", "2181,2888,70000"])
def test_other_ports_are_refused(ports: str) -> None:
    with pytest.raises(ValueError, match=r"zookeeper\.server\.ports=.* must be three different ports"):
        MusterConfig.from_properties({"zookeeper.server.ports": ports})


@pytest.mark.parametrize("count", ["0", "2", "5"])
def test_a_count_other_than_one_and_three_is_refused(count: str) -> None:
    with pytest.raises(ValueError, match=rf"zookeeper\.server\.count={count} must be 1 or 3"):
        MusterConfig.from_properties({"zookeeper.server.count": count})


def test_the_data_are_at_an_absolute_path_on_each_node() -> None:
    with pytest.raises(ValueError, match=r"zookeeper\.data\.dir=data must be absolute"):
        MusterConfig.from_properties({"zookeeper.data.dir": "data"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("zookeeper.server.count", "3"),
        ("zookeeper.server.ports", "12181,12888,13888"),
        ("zookeeper.data.dir", "/data"),
    ],
)
def test_servers_that_muster_would_not_run_are_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} has no effect with zookeeper\.connect"):
        MusterConfig.from_properties({name: value, "zookeeper.connect": "localhost:2181"})
