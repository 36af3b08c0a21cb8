"""The client around kazoo: bounded waits, quiet logs."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, client, connect
from tests.muster_process import eventually


def test_an_outage_is_two_lines_and_bounded_waiting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = EmbeddedZooKeeper.start(tmp_path)
    zk = connect(server.hosts, timeout_s=10)
    zk.create("/a", b"1")
    server.stop()
    started = time.monotonic()
    with pytest.raises(ZooKeeperUnreachable, match=f"ZooKeeper at {server.hosts} did not answer within 1.5 s"):
        zk.call(zk.get_async, "/a", timeout_s=1.5)
    assert time.monotonic() - started < 30
    with EmbeddedZooKeeper.start(tmp_path, server.port):
        # once it has been away for 10 s, which a busy machine needs to start it, a call waits for a second only
        eventually(lambda: zk.call(zk.get_async, "/a", timeout_s=20), lambda found: found[0] == b"1", "it answers", 60)
        zk.shut()
    ours = [record for record in caplog.records if record.name.startswith(("muster.placement", "kazoo"))]
    lines = [record.message for record in ours if record.levelno >= logging.INFO]
    assert len(lines) == 2
    assert lines[0] == f"ZooKeeper at {server.hosts} is unavailable, reconnecting"
    assert lines[1].startswith(f"ZooKeeper at {server.hosts} is back after ")


def test_a_closed_client_does_not_wait(zk_hosts: str) -> None:
    zk = connect(zk_hosts, timeout_s=10)
    zk.shut()
    started = time.monotonic()
    with pytest.raises(ZooKeeperUnreachable, match="is closed"):
        zk.call(zk.get_async, "/a", timeout_s=30)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("hosts", ["host:port", "a:b:c"])
def test_no_connect_string(hosts: str) -> None:
    with pytest.raises(ZooKeeperUnreachable, match="not a ZooKeeper connect string"):
        client(hosts)


def test_a_transaction_is_all_or_nothing_and_reports_what_failed(zk: ZooKeeperClient) -> None:
    zk.commit([("create", "/a", b"1"), ("create", "/a/b", b"2")])
    with pytest.raises(NodeExistsError):
        zk.commit([("create", "/c"), ("create", "/a")])
    with pytest.raises(BadVersionError):
        zk.commit([("check", "/a", 7), ("create", "/c")])
    with pytest.raises(NoNodeError):
        zk.commit([("create", "/c"), ("delete", "/d")])
    assert not zk.exists("/c")


def test_many_are_read_at_once_and_missing_ones_left_out(zk: ZooKeeperClient) -> None:
    for number in range(30):
        zk.create(f"/n{number}", str(number).encode())
    found = zk.read_many([f"/n{number}" for number in range(40)])
    assert {path: data for path, (data, _) in found.items()} == {f"/n{n}": str(n).encode() for n in range(30)}
