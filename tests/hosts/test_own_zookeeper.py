"""Three ZooKeeper servers of Muster's own: hosts with one are killed under load, one is replaced, all are stopped.

The tests are steps: each continues where the one before it ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.journal import now_s
from tests.hosts.cluster import Cluster
from tests.hosts.host import Host
from tests.hosts.load import Load
from tests.hosts.plain import give_token, plain_hosts
from tests.hosts.report import Report
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(900)

_HERE = "10.77.0."
_ADDRESSES = {name: f"{_HERE}{number}" for name, number in {"head": 10, "w1": 11, "w2": 12, "w3": 13}.items()}
_PORT = 2181
_SERVER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own-zookeeper")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    """Muster on four hosts, by the commands of cluster.yaml but for the autoscaler: the servers are on three."""
    with plain_hosts(folder, _ADDRESSES, f"{_HERE}101") as hosts:
        give_token(hosts.values())
        head, *workers = hosts.values()
        made = Cluster(folder, folder / "key", head, head, workers)
        made.write_without_autoscaler()
        made.start()
        made.until_serving(made.hosts)
        yield made


@pytest.fixture(scope="module")
def report() -> Report:
    return Report()


@pytest.fixture(scope="module")
def load(cluster: Cluster, folder: Path) -> Iterator[Load]:
    journals = folder / "journals"
    journals.mkdir()
    made = Load(journals, cluster.bootstrap)
    try:
        made.until_all_go(now_s())
        yield made
    finally:
        made.end()


def test_three_servers_serve(cluster: Cluster) -> None:
    assert places(until_all_serve(cluster)) == {"10.77.0.10", "10.77.0.11", "10.77.0.12"}
    assert {host.name for host in cluster.hosts if has_server(host)} == {"head", "w1", "w2"}
    assert "zookeeper servers" in cluster.head.done("muster doctor --storage /srv/muster --address auto || true")


def test_a_worker_is_killed_and_returns(cluster: Cluster, load: Load, report: Report) -> None:
    lost = cluster.workers[0]
    since_s = now_s()
    lost.power_off()
    create_topic(cluster.workers[1].address, "without-a-worker")
    report.took("a worker with a server is killed: a topic is created", now_s() - since_s)
    status = eventually(cluster.status, lambda found: away(found) == [f"{lost.address}:{_PORT}"], "it is seen", 30)
    (server,) = (actor for actor in status["actors"] if actor["name"] == "zookeeper-2")
    assert server["state"] != "alive"
    load.until_all_go(now_s())
    since_s = now_s()
    lost.power_on()
    cluster.start_ray_on(lost)
    until_all_serve(cluster)
    report.took("it is switched on again, and its server serves", now_s() - since_s)
    cluster.until_serving(cluster.hosts)


def test_the_head_is_killed_and_returns(cluster: Cluster, load: Load, report: Report) -> None:
    """Its Ray is started again, and nothing else: the controller starts the server there."""
    before = cluster.gateways()
    since_s = now_s()
    cluster.head.power_off()
    cluster.head.power_on()
    cluster.start_ray_on_head()
    report.took("the head is killed, its Ray runs again", now_s() - since_s)
    create_topic(cluster.workers[0].address, "after-the-head")
    report.took("a topic is created", now_s() - since_s)
    cluster.until_serving(cluster.hosts)
    until_all_serve(cluster)
    after = cluster.gateways()
    assert {place for place, _ in before.items() - after.items()} == {cluster.head.address}
    load.until_all_go(now_s())
    report.step("all serves", now_s() - since_s, load.gaps(since_s))


def test_a_server_is_replaced(cluster: Cluster, load: Load, report: Report) -> None:
    """Its host is lost for good."""
    lost, spare = cluster.workers[1], cluster.workers[2]
    lost.power_off()
    cluster.until_serving([host for host in cluster.hosts if host is not lost])
    since_s = now_s()
    text = cluster.muster(f"zookeeper replace {lost.address}")
    assert f"the server of {lost.address} is replaced by one at {spare.address}" in text
    report.took("the server of a lost host is replaced", now_s() - since_s)
    assert places(until_all_serve(cluster)) == {"10.77.0.10", "10.77.0.11", "10.77.0.13"}
    kill_server(cluster.workers[0])
    create_topic(cluster.head.address, "with-the-new-one")
    load.until_all_go(now_s())
    until_all_serve(cluster)
    lost.power_on()
    cluster.start_ray_on(lost)
    cluster.until_serving(cluster.hosts)
    assert not has_server(lost)


def test_nothing_is_lost(load: Load, report: Report) -> None:
    violations = load.finish()
    print(f"\n\n{report.all()}\n")
    assert not violations, "\n".join(f"{violation.rule}: {violation.text}" for violation in violations)


def test_all_are_stopped_and_started_again(cluster: Cluster) -> None:
    cluster.muster("down")
    for host in cluster.hosts:
        eventually(lambda host=host: has_server(host), lambda found: not found, f"{host.name} runs no server")
    cluster.muster_up()
    cluster.until_serving(cluster.hosts)
    assert places(until_all_serve(cluster)) == {"10.77.0.10", "10.77.0.11", "10.77.0.13"}
    topics = AdminClient({"bootstrap.servers": cluster.head.address}).list_topics(timeout=30).topics
    assert {"without-a-worker", "after-the-head", "with-the-new-one"} <= set(topics)


def until_all_serve(cluster: Cluster) -> dict[str, Any]:
    """Wait until the controller sees three servers that serve; return its status."""

    def all_serve(status: dict[str, Any]) -> bool:
        modes = [server["mode"] for server in status.get("zookeeper", [])]
        return sorted(map(str, modes)) == ["follower", "follower", "leader"]

    found: dict[str, Any] = eventually(cluster.status, all_serve, "three servers serve", _WITHIN_S)
    return found


def away(status: dict[str, Any]) -> list[str]:
    return [server["address"] for server in status.get("zookeeper", []) if server["mode"] is None]


def places(status: dict[str, Any]) -> set[str]:
    return {server["address"].removesuffix(f":{_PORT}") for server in status["zookeeper"]}


def has_server(host: Host) -> bool:
    return any(_SERVER in command for command in host.processes().values())


def kill_server(host: Host) -> None:
    for pid, command in host.processes().items():
        if _SERVER in command:
            os.kill(pid, signal.SIGKILL)


def create_topic(address: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})

    def create() -> None:
        admin.create_topics([NewTopic(name, 1)], request_timeout=5)[name].result()

    eventually(create, lambda _: True, f"{name} is created", _WITHIN_S)
