"""A Muster with one ZooKeeper server of its own is started again with three, which begin with the data of the one."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.hosts.cluster import Cluster
from tests.hosts.plain import give_token, plain_hosts
from tests.muster_process import eventually

pytestmark = pytest.mark.timeout(900)

_HERE = "10.77.0."
_ADDRESSES = {name: f"{_HERE}{number}" for name, number in {"head": 10, "w1": 11, "w2": 12}.items()}


def test_one_server_becomes_three(tmp_path: Path) -> None:
    with plain_hosts(tmp_path, _ADDRESSES, f"{_HERE}101") as hosts:
        give_token(hosts.values())
        head, *workers = hosts.values()
        cluster = Cluster(tmp_path, tmp_path / "key", head, head, workers)
        cluster.write_without_autoscaler()
        cluster.start("--set zookeeper.server.count=1")
        assert "," not in cluster.ready()["zookeeper"]
        admin = AdminClient({"bootstrap.servers": head.address})
        admin.create_topics([NewTopic("kept", 2)], request_timeout=30)["kept"].result()

        cluster.muster("down")
        cluster.muster_up()
        assert "," not in cluster.ready()["zookeeper"], "nothing was chosen: it stays one"
        cluster.muster("down")
        cluster.muster_up("--set zookeeper.server.count=3")
        assert cluster.ready()["zookeeper"] == "10.77.0.10:2181,10.77.0.11:2181,10.77.0.12:2181"
        cluster.until_serving(cluster.hosts)
        topics = eventually(
            lambda: AdminClient({"bootstrap.servers": head.address}).list_topics(timeout=30).topics, bool, "topics"
        )
        assert len(topics["kept"].partitions) == 2
        assert sorted(path.name for path in (tmp_path / "storage/zookeeper").glob("version*")) == [
            "version-2.before-ensemble"
        ]

        cluster.muster("down")
        refused = head.run("muster up --address auto --storage /srv/muster --insecure --set zookeeper.server.count=1")
        assert refused.returncode == 1
        assert "this storage has 3 ZooKeeper servers, which stay" in refused.stderr
