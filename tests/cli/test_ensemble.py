"""Whether muster up runs one ZooKeeper server or three, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.config import MusterConfig
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.ensemble import ensemble_of, set_founded
from muster.gateway.cli.lifecycle.status import ensemble_text
from muster.placement.zookeeper.ensemble import Ensemble, ensemble_file, read_ensemble

NODES = ["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"]


def config(**properties: str) -> MusterConfig:
    return MusterConfig.from_properties({name.replace("_", "."): value for name, value in properties.items()})


def test_three_nodes_have_three_servers(tmp_path: Path) -> None:
    found = ensemble_of(config(zookeeper_server_ports="1,2,3"), tmp_path, NODES)
    assert found is not None
    assert (found.hosts, found.is_new) == ("10.0.0.10:1,10.0.0.11:1,10.0.0.12:1", True)


@pytest.mark.parametrize("nodes", [None, NODES[:1], NODES[:2]])
def test_fewer_nodes_have_one(tmp_path: Path, nodes: list[str] | None) -> None:
    assert ensemble_of(config(), tmp_path, nodes) is None
    with pytest.raises(CliError, match=rf"needs --address of a Ray with 3 nodes .* there are {len(nodes or [])};"):
        ensemble_of(config(zookeeper_server_count="3"), tmp_path, nodes)


def test_one_may_be_chosen(tmp_path: Path) -> None:
    assert ensemble_of(config(zookeeper_server_count="1"), tmp_path, NODES) is None


def test_a_cluster_with_one_server_keeps_it_until_three_are_chosen(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    assert ensemble_of(config(), tmp_path, NODES) is None
    found = ensemble_of(config(zookeeper_server_count="3"), tmp_path, NODES)
    assert found is not None
    set_founded(found, tmp_path)
    assert [each.name for each in tmp_path.glob("version-2*")] == ["version-2.before-ensemble"]


def test_three_servers_stay_where_they_are(tmp_path: Path) -> None:
    found = founded(tmp_path)
    for nodes in (NODES[1:], NODES[:1]):
        assert ensemble_of(config(), tmp_path, nodes) == found
    with pytest.raises(CliError, match=r"this storage has 3 ZooKeeper servers, which stay"):
        ensemble_of(config(zookeeper_server_count="1"), tmp_path, NODES)
    with pytest.raises(CliError, match=r"on the nodes 10\.0\.0\.10, 10\.0\.0\.11, 10\.0\.0\.12: start Ray there"):
        ensemble_of(config(), tmp_path, None)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    ensemble_file(tmp_path).write_text("{")
    with pytest.raises(CliError, match=str(ensemble_file(tmp_path))):
        ensemble_of(config(), tmp_path, NODES)


@pytest.mark.parametrize(
    ("modes", "text"),
    [
        (["leader", "follower", "follower"], "ZooKeeper: 3 of 3 servers serve"),
        (
            ["leader", None, "follower"],
            "ZooKeeper: 2 of 3 servers serve, without 10.0.0.11:2181; if another one is lost, there is no majority",
        ),
        (
            [None, None, "follower"],
            "ZooKeeper: 1 of 3 servers serve, without 10.0.0.10:2181, 10.0.0.11:2181: there is no majority",
        ),
    ],
)
def test_the_status_says_what_is_at_stake(modes: list[str | None], text: str) -> None:
    servers = [{"address": f"10.0.0.{number}:2181", "mode": mode} for number, mode in enumerate(modes, 10)]
    assert ensemble_text(servers) == text


def founded(folder: Path) -> Ensemble:
    found = ensemble_of(config(), folder, NODES)
    assert found is not None
    set_founded(found, folder)
    stored = read_ensemble(ensemble_file(folder))
    assert stored is not None
    assert not stored.is_new
    return stored
