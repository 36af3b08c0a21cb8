"""A storage directory and a ZooKeeper that do not belong together: said at once, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from muster.actors.log.files import directory as directories
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.zookeeper_checks import check_belongs
from muster.gateway.cli.storage.directory import cluster_id
from muster.placement.epochs import take_controller_epoch
from muster.placement.layout import CLUSTER_ID, decode_cluster_id
from muster.placement.topics import TopicRegistry
from muster.placement.view import OFFSETS_TOPIC
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.cli.conftest import Muster

Check = Callable[[], None]


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    made = tmp_path / "storage"
    made.mkdir()
    return made


@pytest.fixture
def check(zk: ZooKeeperClient, storage: Path) -> Check:
    return lambda: check_belongs(zk, storage, cluster_id(storage), None)


def log_of(storage: Path, topic: str, topic_id: UUID) -> Path:
    directory = storage / "logs" / f"{topic}-0"
    directories.prepare(directory, topic_id, 1)
    return directory


def test_a_new_storage_and_a_new_zookeeper_belong_together_from_then_on(
    zk: ZooKeeperClient, storage: Path, check: Check
) -> None:
    check()
    check()
    assert decode_cluster_id(zk.get(CLUSTER_ID)[0]) == cluster_id(storage)
    other = storage.with_name("other")
    other.mkdir()
    with pytest.raises(CliError, match=f"belongs to cluster {cluster_id(storage)}, but storage {other} to cluster"):
        check_belongs(zk, other, cluster_id(other), None)


def test_those_of_an_earlier_muster_belong_together_if_their_topics_do(
    zk: ZooKeeperClient, storage: Path, check: Check
) -> None:
    take_controller_epoch(zk)
    log_of(storage, "left-of-a-deleted-topic", uuid4())
    log_of(storage, OFFSETS_TOPIC, TopicRegistry(zk).create(OFFSETS_TOPIC, 1, internal=True).topic_id)
    check()
    assert decode_cluster_id(zk.get(CLUSTER_ID)[0]) == cluster_id(storage)


@pytest.mark.parametrize("lost", ["all", "topics", "other topics"])
def test_lost_data_are_named_with_what_restores_them(
    zk: ZooKeeperClient, storage: Path, check: Check, lost: str
) -> None:
    log = log_of(storage, OFFSETS_TOPIC, uuid4())
    if lost != "all":
        take_controller_epoch(zk)
    if lost == "other topics":
        TopicRegistry(zk).create(OFFSETS_TOPIC, 1, internal=True)
    what = {
        "all": "is empty",
        "topics": f"has no topic {OFFSETS_TOPIC}",
        "other topics": f"has another {OFFSETS_TOPIC}",
    }
    with pytest.raises(CliError, match=f"{what[lost]}, but storage .* has 1 partition of cluster") as refused:
        check()
    assert "muster restore BACKUP --storage NEW-DIRECTORY --zookeeper HOSTS/NEW-CHROOT" in str(refused.value)
    assert zk.exists(CLUSTER_ID) is None
    assert log.is_dir()


@pytest.mark.parametrize("external", [False, True])
def test_muster_up_says_so_at_once(muster: Muster, storage: Path, zk_hosts: str, external: bool) -> None:
    log = log_of(storage, "orders", uuid4())
    arguments = ["--zookeeper", zk_hosts] if external else []
    error = muster("up", "--port", "0", "--storage", str(storage), *arguments).stderr.splitlines()[-1]
    assert "is empty, but storage" in error
    assert "its data are lost" in error
    assert "muster restore BACKUP --storage NEW-DIRECTORY" in error
    assert log.is_dir()
    assert not (storage / "run/cluster.json").exists()
