"""Muster on a maintained ZooKeeper from Maven Central, on the data of the one that pyspark has, and back."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kazoo.protocol.states import WatchedEvent
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.zookeeper.client import connect
from tests.cluster.test_clients import create, produce, read_confluent
from tests.conformance.artifacts import maintained_zookeeper
from tests.muster_process import Muster

PYSPARKS = "3.6.3"


@pytest.fixture(scope="session")
def lib() -> str:
    return str(maintained_zookeeper())


def test_its_data_are_those_of_pysparks(tmp_path: Path, lib: str) -> None:
    for number, (jars, version) in enumerate(((None, PYSPARKS), (lib, "3.9."), (None, PYSPARKS))):
        with EmbeddedZooKeeper.start(tmp_path / "zookeeper", lib=jars, timeout_s=60) as server:
            client = connect(server.hosts, server.secure(), timeout_s=10)
            assert f"version: {version}" in client.command(b"srvr")
            client.create(f"/{number}", b"")
            assert {str(each) for each in range(number + 1)} <= {*client.call(client.get_children_async, "/")}
            client.shut()


def test_who_may_not_read_a_node_does_not_see_its_path(tmp_path: Path, lib: str) -> None:
    """CVE-2024-23944: pyspark's shows it to a watch above."""
    seen = {jars: _seen(tmp_path / str(number), jars) for number, jars in enumerate((None, lib))}
    assert seen == {None: ["/config/users/alice"], lib: []}


def _seen(data: Path, jars: str | None) -> list[str]:
    with EmbeddedZooKeeper.start(data, lib=jars, timeout_s=60) as server:
        owner, other = [connect(server.hosts, timeout_s=10) for _ in range(2)]
        owner.add_auth("digest", "muster:secret")
        only = [make_digest_acl("muster", "secret", all=True)]
        owner.create("/config", b"", acl=[*only, *READ_ACL_UNSAFE])
        owner.create("/config/users", b"", acl=only)
        paths: list[str] = []
        last = threading.Event()

        def watched(event: WatchedEvent) -> None:
            paths.append(event.path)
            if event.path == "/config/last":
                last.set()

        other.watch_tree("/config", watched).get(10)
        owner.create("/config/users/alice", b"", acl=only)
        owner.create("/config/last", b"")
        assert last.wait(10)
        owner.shut()
        other.shut()
        return [path for path in paths if path != "/config/last"]


def test_muster_runs_on_it(tmp_path: Path, lib: str) -> None:
    with Muster(tmp_path / "storage", properties={"zookeeper.server.lib": lib}) as muster:
        client = muster.zookeeper()
        assert "version: 3.9." in client.command(b"srvr")
        client.shut()
        create(muster, "t")
        produce(muster, "t", [b"v"] * 10)
        assert len(read_confluent(muster, "t", "g", 10)) == 10
