"""Check that a ZooKeeper is that of a storage directory.

Each is useless without the other, and spoils what is not its own: a log whose topic has another id is set aside for
deletion.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import UUID

from kazoo.exceptions import NodeExistsError, NoNodeError

from muster.actors.log.errors import StorageError
from muster.actors.log.files import directory as directories
from muster.actors.runtime.words import counted
from muster.gateway.cli.backup.capture import partitions
from muster.gateway.cli.errors import CliError
from muster.placement.layout import (
    CLUSTER_ID,
    CONTROLLER_EPOCH,
    Malformed,
    decode_cluster_id,
    decode_topic,
    encode_cluster_id,
    topic_path,
)
from muster.placement.view import COORDINATORS
from muster.placement.zookeeper.client import ZooKeeperClient


def check_belongs(zk: ZooKeeperClient, storage: Path, cluster_id: str, data_dir: Path | None) -> None:
    """Raise CliError unless ZooKeeper has the nodes of this storage, or both are new; then it gets the cluster id.

    ``data_dir``: that of Muster's own ZooKeeper. Raises ZooKeeperUnreachable or OSError.
    """
    name = f"ZooKeeper at {zk.hosts_text}" if data_dir is None else f"the ZooKeeper with its data in {data_dir}"
    try:
        stored = _read(zk, CLUSTER_ID)
        theirs = None if stored is None else decode_cluster_id(stored)
    except Malformed as error:
        raise CliError(f"{name}: {CLUSTER_ID} is {error}; is it a Muster's?") from error
    if theirs not in (None, cluster_id):
        raise CliError(
            f"{name} belongs to cluster {theirs}, but storage {storage} to cluster {cluster_id}: "
            f"{_elsewhere(data_dir)}. Nothing was changed"
        )
    logs = partitions(storage)
    if (missing := _missing(zk, logs)) is not None:
        raise CliError(
            f"{name} {missing}, but storage {storage} has {counted(len(logs), 'partition')} of cluster {cluster_id}; "
            f"{_lost(data_dir)}: {remedies(storage, data_dir)}. Nothing was changed"
        )
    if theirs is None:
        zk.call(zk.ensure_path_async, "/")
        with suppress(NodeExistsError):  # by an attempt whose response was lost
            zk.call(zk.create_async, CLUSTER_ID, encode_cluster_id(cluster_id), makepath=True)


def _missing(zk: ZooKeeperClient, logs: list[Path]) -> str | None:
    """Return the problem of its nodes, given these logs; None if they fit, or there are none.

    Only internal topics say so with certainty: a log of any other may be left of a topic that was deleted.
    """
    if logs and _read(zk, CONTROLLER_EPOCH) is None:
        return "is empty"
    for topic in COORDINATORS:
        log = next((log for log in logs if log.name.rpartition("-")[0] == topic), None)
        if log is None:
            continue
        node = _read(zk, topic_path(topic))
        if node is None:
            return f"has no topic {topic}"
        stored = _topic_id(log)
        if stored is not None and decode_topic(topic, node, {}).topic_id != stored:
            return f"has another {topic}"
    return None


def _topic_id(log: Path) -> UUID | None:
    try:
        return directories.topic_of(log)
    except StorageError:  # it will be reported when the log is opened
        return None


def _read(zk: ZooKeeperClient, path: str) -> bytes | None:
    with suppress(NoNodeError):
        return bytes(zk.call(zk.get_async, path)[0])
    return None


def _elsewhere(data_dir: Path | None) -> str:
    if data_dir is None:
        return "name this storage's ZooKeeper and its chroot with --zookeeper, or its own --storage"
    return "put this storage's own data of ZooKeeper there"


def _lost(data_dir: Path | None) -> str:
    return "its data are lost" if data_dir else "check --zookeeper and its chroot; if they are right, its data are lost"


def remedies(storage: Path, data_dir: Path | None) -> str:
    """Return the remedies for a ZooKeeper that has lost its data."""
    copy, hosts = ("them", " --zookeeper HOSTS/NEW-CHROOT") if data_dir is None else (data_dir / "version-2", "")
    return (
        f"put a copy of {copy} back, or restore a backup with muster restore BACKUP --storage NEW-DIRECTORY{hosts}; "
        f"without either, muster log dump PARTITION --storage {storage} reads the records that are there"
    )
