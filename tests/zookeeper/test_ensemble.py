"""The file of the ensemble: its servers, their lines for ZooKeeper, and where a server moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.ensemble import Ensemble, InvalidEnsemble, Server, ensemble_file, read_ensemble

SERVERS = tuple(
    Server(id=number, address=f"10.0.0.{number}", client_port=2181, quorum_port=2888, election_port=3888)
    for number in (1, 2, 3)
)
ENSEMBLE = Ensemble(id="ab", servers=SERVERS, is_new=True)


def test_the_file_has_everything(tmp_path: Path) -> None:
    file = ensemble_file(tmp_path)
    assert read_ensemble(file) is None
    file.write_text(ENSEMBLE.encode())
    assert read_ensemble(file) == ENSEMBLE


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": "a", "servers": [{}]}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    file = ensemble_file(tmp_path)
    file.write_text(text)
    with pytest.raises(InvalidEnsemble, match=str(file)):
        read_ensemble(file)
    assert Access(ensemble_file=str(file)).hosts() is None


def test_lines_are_those_of_zookeeper() -> None:
    assert SERVERS[0].line == "server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181"
    assert replace(SERVERS[0], address="fd::1").line == "server.1=[fd::1]:2888:3888:participant;[fd::1]:2181"
    assert ENSEMBLE.hosts == "10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"


def test_a_server_that_was_replaced_is_superfluous_and_its_id_is_not_used_again() -> None:
    config = "".join(f"{server.line}\n" for server in SERVERS) + "version=100000000"
    assert (ENSEMBLE.lacking(config), ENSEMBLE.superfluous(config)) == ([], [])
    found = ENSEMBLE.replaced(2, "10.0.0.9")
    assert found.lacking(config) == ["server.4=10.0.0.9:2888:3888:participant;10.0.0.9:2181"]
    assert found.superfluous(config) == ["2"]
    assert (found.at("10.0.0.2"), [each.id for each in found.replaced(4, "10.0.0.8").servers]) == (None, [1, 3, 5])
