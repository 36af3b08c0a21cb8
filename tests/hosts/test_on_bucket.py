"""Three hosts that share no directory: Muster lives on a bucket, and each host is killed in turn, under load.

A host that is killed loses its copies. ZooKeeper is on another host, and so is the bucket.
"""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.journal import now_s
from tests.hosts.cluster import ZOOKEEPER_PORT, Cluster
from tests.hosts.host import Host
from tests.hosts.installing import ROOT
from tests.hosts.load import Load
from tests.hosts.plain import give_token, plain_hosts
from tests.hosts.report import Report
from tests.muster_process import eventually
from tests.object_storage.seaweedfs import SeaweedFS, seaweedfs

pytestmark = pytest.mark.timeout(1800)

_HERE = "10.77.0."
_ADDRESSES = {name: f"{_HERE}{number}" for name, number in {"head": 10, "w1": 11, "w2": 12, "store": 102}.items()}
_CLIENTS = f"{_HERE}101"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[dict[str, Host]]:
    with plain_hosts(tmp_path, _ADDRESSES, _CLIENTS, share=False) as made:
        give_token(made.values())
        yield made


@pytest.fixture
def service(tmp_path: Path, hosts: dict[str, Host]) -> Iterator[SeaweedFS]:
    folder = tmp_path / "object-storage"
    folder.mkdir()
    with seaweedfs(folder, _CLIENTS) as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path, hosts: dict[str, Host], service: SeaweedFS) -> Cluster:
    head, store, workers = hosts["head"], hosts["store"], [hosts["w1"], hosts["w2"]]
    made = Cluster(
        *(tmp_path, tmp_path / "key", head, head, workers),
        store=store,
        bucket="s3://muster-hosts/cluster",
        environment=service.environment(),
    )
    made.write_without_autoscaler()
    credentials = f"muster:{secrets.token_hex(32)}\n"
    for host in hosts.values():
        file = host.storage / "zookeeper/credentials"
        file.parent.mkdir()
        file.touch(mode=0o600)
        file.write_text(credentials)
    store.start(f"env PYTHONPATH={ROOT} {sys.executable} -m tests.hosts.zookeeper {store.address} {ZOOKEEPER_PORT}")
    eventually((store.storage / "zookeeper/zoo.cfg").exists, bool, "ZooKeeper starts")
    made.start()
    return made


def test_any_host_may_be_lost_with_its_copies(cluster: Cluster, tmp_path: Path) -> None:
    cluster.until_serving(cluster.hosts)
    journals = tmp_path / "journals"
    journals.mkdir()
    report = Report()
    with ExitStack() as undo:
        load = Load(journals, cluster.bootstrap)
        undo.callback(load.end)
        load.until_all_go(now_s())
        for host in (*cluster.workers, cluster.head):
            before = cluster.gateways()
            since_s = now_s()
            host.power_off()
            for lost in ("logs", "metrics"):
                shutil.rmtree(host.storage / lost)
            if host is not cluster.head:
                load.until_all_go(now_s())
                report.took(f"{host.name} is killed: all go on", now_s() - since_s)
            host.power_on()
            if host is cluster.head:
                cluster.start_ray_on_head()
            else:
                cluster.start_ray_on(host)
            cluster.until_serving(cluster.hosts)
            after = cluster.gateways()
            assert {place for place, _ in before.items() - after.items()} == {host.address}
            load.until_all_go(now_s())
            report.step(f"{host.name} is killed and returns: all serves", now_s() - since_s, load.gaps(since_s))
        violations = load.finish()
    assert not violations, "\n".join(f"{violation.rule}: {violation.text}" for violation in violations)
