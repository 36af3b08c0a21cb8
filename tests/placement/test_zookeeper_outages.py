"""ZooKeeper unavailable, restarted, or with expired sessions: the log of a process, with any number of clients."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.ephemeral import EphemeralNode
from muster.placement.zookeeper.outages import Connectivity, connectivity
from tests.zookeeper_fixture import eventually as eventually_within
from tests.zookeeper_sessions import end_sessions, password

WAIT_S = 60
eventually = partial(eventually_within, within_s=WAIT_S)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """Yield a server of the test's own, which it may stop."""
    with EmbeddedZooKeeper.start(tmp_path) as running:
        yield running


@pytest.fixture
def connected(server: EmbeddedZooKeeper) -> Iterator[Callable[[], ZooKeeperClient]]:
    """Yield a function that creates clients of the server; the test need not close them."""
    with contextlib.ExitStack() as clients:

        def one_more() -> ZooKeeperClient:
            zk = connect(server.hosts, timeout_s=WAIT_S)
            clients.callback(zk.shut)
            return zk

        yield one_more


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def expire(zk: ZooKeeperClient, hosts: str) -> None:
    session = zk.client_id
    assert session is not None
    assert session[1] == password(session[0])
    end_sessions(hosts, [session[0]])
    eventually(lambda: zk.connected and zk.client_id != session, "a new session")


def test_a_process_with_many_clients_says_it_once(
    server: EmbeddedZooKeeper, connected: Callable[[], ZooKeeperClient], caplog: pytest.LogCaptureFixture
) -> None:
    clients = [connected() for _ in range(3)]
    before = connectivity()
    assert before.connected
    server.stop()
    eventually(lambda: not any(zk.connected for zk in clients), "all are cut off")
    assert not connectivity().connected
    with EmbeddedZooKeeper.start(server.data_dir, server.port):
        eventually(lambda: connectivity().connected, "all are back")
        assert all(zk.connected for zk in clients)
        for zk in clients:
            zk.shut()
    assert connectivity() == Connectivity(connected=True, outages=before.outages + 1)
    away, back = lines(caplog)
    assert away == f"ZooKeeper at {server.hosts} is unavailable, reconnecting"
    assert back.startswith(f"ZooKeeper at {server.hosts} is back after ")


def test_a_paused_server_is_an_outage_that_ends(
    server: EmbeddedZooKeeper, connected: Callable[[], ZooKeeperClient], caplog: pytest.LogCaptureFixture
) -> None:
    zk = connected()
    zk.create("/a", b"1")
    process = psutil.Process(server.pid)
    process.suspend()
    try:
        eventually(lambda: process.status() == psutil.STATUS_STOPPED, "all of its threads have stopped")
        with pytest.raises(ZooKeeperUnreachable):
            zk.call(zk.get_async, "/a", timeout_s=0.5)
        eventually(lambda: not connectivity().connected, "nothing is heard")
    finally:
        process.resume()
    eventually(lambda: connectivity().connected, "it is heard again")
    assert zk.call(zk.get_async, "/a")[0] == b"1"
    zk.shut()
    assert len(lines(caplog)) == 2


def test_an_expired_session_is_logged_and_replaced(
    server: EmbeddedZooKeeper, connected: Callable[[], ZooKeeperClient], caplog: pytest.LogCaptureFixture
) -> None:
    zk = connected()
    expire(zk, server.hosts)
    assert zk.call(zk.exists_async, "/zookeeper") is not None
    zk.shut()
    away, back = lines(caplog)
    assert away.endswith("is unavailable, reconnecting")
    assert back.endswith("s, with a new session")


def test_an_ephemeral_node_comes_back_with_the_new_session(
    server: EmbeddedZooKeeper, connected: Callable[[], ZooKeeperClient]
) -> None:
    zk = connected()
    node = EphemeralNode(server.hosts, "/brokers/ids/7", lambda: b"seven")
    stat = eventually(lambda: zk.exists("/brokers/ids/7"), "the node is there")
    expire(node._zk, server.hosts)
    again = eventually(lambda: zk.exists("/brokers/ids/7"), "the node is there again")
    assert again.czxid > stat.czxid
    assert zk.get("/brokers/ids/7")[0] == b"seven"
    node.close()
    assert not zk.exists("/brokers/ids/7")


def test_a_process_that_starts_during_an_outage_says_so(
    server: EmbeddedZooKeeper, connected: Callable[[], ZooKeeperClient], caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()
    node = EphemeralNode(server.hosts, "/brokers/ids/7", lambda: b"seven")
    node.refresh()
    eventually(lambda: not connectivity().connected, "the first attempts fail")
    with EmbeddedZooKeeper.start(server.data_dir, server.port):
        zk = connected()
        eventually(lambda: zk.exists("/brokers/ids/7"), "the node is there")
        eventually(lambda: connectivity().connected, "the outage is over")
        node.close()
        zk.shut()
    assert [line.rpartition(" is ")[2].split(" ")[0] for line in lines(caplog)] == ["unavailable,", "back"]


def test_a_failed_first_connection_is_an_error_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ZooKeeperUnreachable):
            connect(f"127.0.0.1:{taken.getsockname()[1]}", timeout_s=0.5)
    assert lines(caplog) == []


def test_a_long_outage_makes_nobody_wait_for_long(
    server: EmbeddedZooKeeper, connected: Callable[[], ZooKeeperClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.placement.zookeeper.client._LONG_AWAY_S", 0.5)
    zk = connected()
    server.stop()
    with pytest.raises(ZooKeeperUnreachable, match=r"within 0\.7 s"):
        zk.call(zk.get_async, "/a", timeout_s=0.7)
    with pytest.raises(ZooKeeperUnreachable, match="within 1 s"):
        zk.call(zk.get_async, "/a", timeout_s=60)


def test_an_outage_of_a_client_that_was_closed_is_nobodys(
    server: EmbeddedZooKeeper, connected: Callable[[], ZooKeeperClient]
) -> None:
    zk = connected()
    server.stop()
    eventually(lambda: not connectivity().connected, "it is cut off")
    zk.shut()
    assert connectivity().connected
