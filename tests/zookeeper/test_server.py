"""Three real servers on this machine: one ends and returns, one loses its data, one moves, one is none of theirs."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper, ZooKeeperStartError
from muster.actors.zookeeper.server import EnsembleServer, Restarts, administrator, taken_ports
from muster.gateway.cli.doctor.cluster import servers
from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from muster.placement.zookeeper.ensemble import Ensemble, Server, ensemble_file, modes
from tests.zookeeper_fixture import eventually

_CREDENTIALS = f"muster:{'ab' * 32}"
_WITHIN_S = 60.0


class Running:
    """Three servers, on addresses of this machine, with the folder of their file."""

    def __init__(self, folder: Path, copied_from: Path | None = None) -> None:
        self.folder = folder
        ports = free_ports(3)
        servers = tuple(
            Server(id=number, address=address, client_port=ports[0], quorum_port=ports[1], election_port=ports[2])
            for number, address in enumerate(("127.0.0.1", "127.0.0.2", "127.0.0.3"), 1)
        )
        self.ensemble = Ensemble(id="ab", servers=servers, is_new=True)
        self.servers: dict[int, EnsembleServer] = {}
        (folder / "credentials").write_text(_CREDENTIALS)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda number: self.begin(number, copied_from=copied_from), (1, 2, 3)))
        self.set(dataclasses.replace(self.ensemble, is_new=False))

    def set(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        ensemble_file(self.folder).write_text(ensemble.encode())

    def begin(self, number: int, *, copied_from: Path | None = None, credentials: str = _CREDENTIALS) -> EnsembleServer:
        self.servers[number] = EnsembleServer.begin(
            self.folder / str(number), self.ensemble, number, credentials, copied_from=copied_from, timeout_s=_WITHIN_S
        )
        return self.servers[number]

    @property
    def access(self) -> Access:
        file = ensemble_file(self.folder)
        return Access(credentials_file=str(self.folder / "credentials"), set_acl=True, ensemble_file=str(file))

    def client(self) -> ZooKeeperClient:
        return connect(self.ensemble.hosts, self.access, timeout_s=_WITHIN_S)

    def modes(self) -> list[str | None]:
        return [mode for _, mode in sorted(modes(self.ensemble.servers).items())]

    def leader(self) -> int:
        found: int = eventually(
            lambda: next((number for number, mode in modes(self.ensemble.servers).items() if mode == "leader"), None),
            "there is a leader",
            within_s=_WITHIN_S,
        )
        return found

    def until_all_serve(self) -> None:
        eventually(
            lambda: sorted(map(str, self.modes())) == ["follower", "follower", "leader"],
            "all serve",
            within_s=_WITHIN_S,
        )

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("three"))
    yield running
    running.stop()


@pytest.fixture
def zk(three: Running) -> Iterator[ZooKeeperClient]:
    client = three.client()
    yield client
    client.shut()


def test_the_leader_ends_and_is_started_again(three: Running, zk: ZooKeeperClient) -> None:
    zk.call(zk.create_async, "/kept", b"before")
    leader = three.servers[three.leader()]
    os.kill(leader.pid, signal.SIGKILL)
    eventually(lambda: leader.is_lost, "it is lost")
    zk.call(zk.set_async, "/kept", b"after", timeout_s=_WITHIN_S)
    assert three.modes().count(None) == 1
    (finding,) = servers(three.ensemble)
    assert (finding.level, finding.found.partition(",")[0]) == ("warning", "2 of 3 serve")
    said: list[str] = []
    Restarts(leader, said.append).check()
    three.until_all_serve()
    (finding,) = servers(three.ensemble)
    assert (finding.level, finding.found) == ("ok", "3 of 3 serve")
    assert [text.partition(" after ")[0] for text in said][-1] == "ZooKeeper is back"


def test_a_server_without_its_data_gets_them_and_does_not_vote_before(three: Running, zk: ZooKeeperClient) -> None:
    """Else it and the one that lags, here the one that is new, would elect each other and forget what was written."""
    zk.call(zk.ensure_path_async, "/kept")
    zk.call(zk.set_async, "/kept", b"acknowledged", timeout_s=_WITHIN_S)
    lost = [number for number in (1, 2, 3) if number != three.leader()]
    for number in lost:
        three.servers[number].stop()
    for number in lost:
        (three.folder / str(number)).rename(three.folder / f"{number}-lost")
        three.begin(number)
    three.servers[three_left(lost)].stop()
    with ExitStack() as undo:
        undo.callback(three.begin, three_left(lost))
        with pytest.raises(AssertionError):
            eventually(lambda: any(three.modes()), "two without data serve", within_s=3)
    for number in lost:
        three.servers[number].stop()
        (three.folder / str(number)).rename(three.folder / f"{number}-empty")
    (three.folder / f"{lost[0]}-lost").rename(three.folder / str(lost[0]))
    three.begin(lost[0])
    three.begin(lost[1])
    three.until_all_serve()
    assert zk.call(zk.get_async, "/kept", timeout_s=_WITHIN_S)[0] == b"acknowledged"


def three_left(lost: list[int]) -> int:
    """Return the one that is not lost."""
    return ({1, 2, 3} - set(lost)).pop()


def test_a_server_is_replaced_and_clients_find_it(three: Running, zk: ZooKeeperClient) -> None:
    zk.call(zk.ensure_path_async, "/kept")
    old = three.leader()
    three.servers.pop(old).stop()
    three.set(three.ensemble.replaced(old, "127.0.0.9"))
    config = zk.call(zk.get_async, "/zookeeper/config", timeout_s=_WITHIN_S)[0].decode()
    new = three.ensemble.servers[-1]
    assert (new.id, three.ensemble.lacking(config), three.ensemble.superfluous(config)) == (4, [new.line], [str(old)])
    with pytest.raises(NoAuthError):
        zk.call(zk.reconfig_async, new.line, str(old), None, -1, timeout_s=_WITHIN_S)
    zk.call(zk.add_auth_async, "digest", administrator(_CREDENTIALS))
    zk.call(zk.reconfig_async, new.line, str(old), None, -1, timeout_s=_WITHIN_S)
    three.begin(new.id)
    three.until_all_serve()
    config = zk.call(zk.get_async, "/zookeeper/config")[0].decode()
    assert not three.ensemble.lacking(config) + three.ensemble.superfluous(config)
    other = three.ensemble.servers[0].id
    three.servers[other].stop()
    zk.call(zk.set_async, "/kept", b"moved", timeout_s=_WITHIN_S)
    three.begin(other)
    three.until_all_serve()  # it has learnt of the new one
    assert new.hosts in zk.hosts_text


def test_a_server_with_other_credentials_is_none_of_theirs(three: Running) -> None:
    number = next(each.id for each in three.ensemble.servers if each.id != three.leader())
    three.servers[number].stop()
    three.begin(number, credentials="muster:other")
    with pytest.raises(AssertionError):
        eventually(lambda: modes(three.ensemble.servers)[number], "it serves", within_s=3)
    three.servers[number].stop()
    three.begin(number)
    three.until_all_serve()


def test_the_data_of_one_server_become_those_of_three(tmp_path: Path) -> None:
    with EmbeddedZooKeeper.start(tmp_path / "one") as one:
        client = connect(one.hosts, timeout_s=_WITHIN_S)
        client.create("/kept", b"data")
        client.shut()
    running = Running(tmp_path, copied_from=tmp_path / "one/version-2")
    try:
        client = running.client()
        assert client.get("/kept")[0] == b"data"
        client.shut()
    finally:
        running.stop()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert taken_ports("127.0.0.1", (port,)) == [f"127.0.0.1:{port}: Address already in use"]
        assert not taken_ports("127.0.0.2", (port,))
        quorum, election = free_ports(2)
        server = Server(id=1, address="127.0.0.1", client_port=port, quorum_port=quorum, election_port=election)
        alone = Ensemble(id="ab", servers=(server,), is_new=True)
        with pytest.raises(ZooKeeperStartError, match="cannot listen on 127"):
            EnsembleServer.begin(tmp_path / "1", alone, 1, _CREDENTIALS)


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with ExitStack() as undo:
        probes = [undo.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
