"""The copy in memory, compared with a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.zookeeper.client import ZooKeeperClient, client, connect
from muster.placement.zookeeper.mirror import Mirror
from tests.zookeeper_fixture import eventually

ROOT = "/client_group_id"


@pytest.fixture
def mirror(zk_hosts: str) -> Iterator[Mirror]:
    zk = connect(zk_hosts, timeout_s=10)
    one = Mirror(zk, ROOT)
    one.start()
    yield one
    one.stop()
    zk.shut()


def data(mirror: Mirror) -> dict[str, bytes] | None:
    nodes = mirror.snapshot(timeout_s=10)
    return None if nodes is None else {path: node.data for path, node in nodes.items()}


def test_it_follows_every_change_and_reads_everything_once(zk: ZooKeeperClient, mirror: Mirror) -> None:
    assert data(mirror) == {}
    zk.create(f"{ROOT}/h/c/m", b"1", makepath=True)
    zk.create(f"{ROOT}/h-c", b"g")
    eventually(lambda: data(mirror) == {f"{ROOT}/{p}": d for p, d in TREE.items()}, "the nodes are seen")
    before = mirror.node_reads
    zk.set(f"{ROOT}/h/c/m", b"2")
    eventually(lambda: (data(mirror) or {})[f"{ROOT}/h/c/m"] == b"2", "the change is seen")
    assert mirror.node_reads == before + 1
    zk.delete(ROOT, recursive=True)
    eventually(lambda: data(mirror) == {}, "everything is gone")
    zk.create(f"{ROOT}/x", b"", makepath=True)
    eventually(lambda: data(mirror) == {f"{ROOT}/x": b""}, "a root that was made again is still watched")
    assert mirror.full_reads == 1


TREE = {"h": b"", "h/c": b"", "h/c/m": b"1", "h-c": b"g"}


def test_what_was_there_before_is_read(zk: ZooKeeperClient, zk_hosts: str) -> None:
    for path, content in TREE.items():
        zk.create(f"{ROOT}/{path}", content, makepath=True)
    mirror = Mirror(zk, ROOT)
    assert mirror.snapshot() is None
    mirror.start()
    assert data(mirror) == {f"{ROOT}/{p}": d for p, d in TREE.items()}
    nodes = mirror.snapshot()
    assert nodes is not None
    assert nodes[f"{ROOT}/h/c/m"].mzxid == zk.get(f"{ROOT}/h/c/m")[1].mzxid
    mirror.stop()


def test_nothing_is_known_while_zookeeper_is_away_and_everything_is_read_when_it_is_back(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper.start(tmp_path)
    watching = client(server.hosts)
    watching.start_async()
    mirror = Mirror(watching, ROOT)
    mirror.start()
    other = connect(server.hosts, timeout_s=10)
    other.create(f"{ROOT}/a", b"1", makepath=True)
    eventually(lambda: data(mirror) == {f"{ROOT}/a": b"1"}, "the node is seen")
    server.stop()
    eventually(lambda: mirror.snapshot() is None, "the mirror knows that it knows nothing")
    with EmbeddedZooKeeper.start(tmp_path, server.port):
        other.call(other.set_async, f"{ROOT}/a", b"2", timeout_s=20)
        eventually(lambda: data(mirror) == {f"{ROOT}/a": b"2"}, "what changed meanwhile is seen")
        other.create(f"{ROOT}/b", b"3")
        eventually(lambda: len(data(mirror) or {}) == 2, "the watch is set again")
        assert mirror.full_reads == 2
        other.shut()
        mirror.stop()
        watching.shut()


def test_deleted_nodes_are_not_read_and_a_snapshot_is_made_once(zk: ZooKeeperClient, mirror: Mirror) -> None:
    zk.create(f"{ROOT}/a", b"1", makepath=True)
    zk.create(f"{ROOT}/b", b"2")
    eventually(lambda: data(mirror) == {f"{ROOT}/a": b"1", f"{ROOT}/b": b"2"}, "the nodes are seen")
    before, reads = mirror.snapshot(), mirror.node_reads
    assert mirror.snapshot() is before
    zk.delete(f"{ROOT}/a")
    eventually(lambda: data(mirror) == {f"{ROOT}/b": b"2"}, "the removal is seen")
    assert mirror.node_reads == reads
    assert before is not None
    assert f"{ROOT}/a" in before


def test_more_nodes_than_one_request_reads(zk: ZooKeeperClient, zk_hosts: str) -> None:
    names = [f"{ROOT}/{parent}/{number}" for parent in ("h1", "h2") for number in range(600)]
    for parent in ("h1", "h2"):
        zk.create(f"{ROOT}/{parent}", b"", makepath=True)
    zk.commit([("create", name, name.encode()) for name in names])
    mirror = Mirror(zk, ROOT)
    mirror.start()
    held = data(mirror)
    assert held is not None
    assert {path: content for path, content in held.items() if content} == {name: name.encode() for name in names}
    mirror.stop()
