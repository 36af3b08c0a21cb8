"""The head is killed, and its Ray started again by the command of cluster.yaml. ZooKeeper is on another host.

Before ``test_hosts.py``: its hosts are gone before those of ``ray up`` are made.
"""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.journal import now_s
from tests.hosts.cluster import REDIS_PORT, ZOOKEEPER_PORT, Cluster, Gcs
from tests.hosts.host import Host
from tests.hosts.installing import ROOT
from tests.hosts.load import Load
from tests.hosts.plain import give_token, plain_hosts
from tests.hosts.report import Report
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(900)

_HERE = "10.77.0."
_ADDRESSES = {name: f"{_HERE}{number}" for name, number in {"head": 10, "w1": 11, "w2": 12, "store": 102}.items()}
_TOPIC_S = 60.0


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[dict[str, Host]]:
    with plain_hosts(tmp_path, _ADDRESSES, f"{_HERE}101") as made:
        give_token(made.values())
        yield made


@pytest.fixture
def cluster(tmp_path: Path, hosts: dict[str, Host], gcs: Gcs) -> Cluster:
    """Muster on three hosts, by the commands of cluster.yaml but for the autoscaler."""
    head, store, workers = hosts["head"], hosts["store"], [hosts["w1"], hosts["w2"]]
    made = Cluster(tmp_path, tmp_path / "key", head, head, workers, gcs=gcs, store=store)
    made.write_without_autoscaler()
    _start_zookeeper(store, tmp_path / "storage/zookeeper")
    if gcs == "redis":
        assert shutil.which("redis-server"), "redis-server is not installed; Debian: redis-server"
        store.start(f"redis-server --bind {store.address} --port {REDIS_PORT} --protected-mode no --dir /tmp")
    made.start()
    return made


def _start_zookeeper(host: Host, data: Path) -> None:
    """Start one that has Muster's own data, with the credentials that Muster's own would have."""
    credentials = data / "credentials"
    data.mkdir()
    credentials.touch(mode=0o600)
    credentials.write_text(f"muster:{secrets.token_hex(32)}\n")
    host.start(f"env PYTHONPATH={ROOT} {sys.executable} -m tests.hosts.zookeeper {host.address} {ZOOKEEPER_PORT}")
    eventually((data / "zoo.cfg").exists, bool, "ZooKeeper starts")


@pytest.mark.parametrize("gcs", ["embedded", "redis"])
def test_what_is_on_other_hosts_outlives_the_head(cluster: Cluster, tmp_path: Path, gcs: Gcs) -> None:
    """It keeps its processes, clients of other gateways continue, and what was on the head starts there again."""
    cluster.until_serving(cluster.hosts)
    journals = tmp_path / "journals"
    journals.mkdir()
    report = Report()
    with ExitStack() as undo:
        load = Load(journals, cluster.bootstrap)
        undo.callback(load.end)
        load.until_all_go(now_s())
        before = cluster.gateways()
        since_s = now_s()
        cluster.head.power_off()
        cluster.head.power_on()
        cluster.start_ray_on_head()
        report.took(f"{gcs}: the head is killed, its Ray runs again", now_s() - since_s)
        _create_topic(cluster.workers[0].address)
        report.took("a topic is created", now_s() - since_s)
        cluster.until_serving(cluster.hosts)
        after = cluster.gateways()
        assert {place for place, _ in before.items() - after.items()} == {cluster.head.address}
        load.until_all_go(now_s())
        report.step(f"{gcs}: all serves", now_s() - since_s, load.gaps(since_s))
        violations = load.finish()
    assert not violations, "\n".join(f"{violation.rule}: {violation.text}" for violation in violations)


def _create_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})

    def create() -> None:
        admin.create_topics([NewTopic("later", 1)], request_timeout=5)["later"].result()

    eventually(create, lambda _: True, "a topic is created", _TOPIC_S)
