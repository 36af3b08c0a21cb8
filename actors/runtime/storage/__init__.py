"""Checks of ``storage.path``: that every node sees the same directory, and that its file system is fit for Muster."""

from __future__ import annotations

from pathlib import Path

import javaproperties

from muster.actors.runtime.files import write_atomically

META = "meta.properties"


class StorageNotShared(RuntimeError):
    """This node sees another directory under ``storage.path`` than the node that started the cluster."""


def check_shared(storage: Path, cluster_id: str) -> None:
    """Raise StorageNotShared unless ``storage`` holds this cluster's meta.properties."""
    if cluster_id_in(storage) != cluster_id:
        raise StorageNotShared(
            f"storage.path {storage} on this node is not that of cluster {cluster_id}; "
            "every node must see the same directory there (NFS or the like)"
        )


def make_own(storage: Path, cluster_id: str) -> None:
    """Make ``storage`` this node's directory of the cluster, which is on a bucket.

    Raises StorageNotShared if it is that of another cluster; OSError.
    """
    storage.mkdir(parents=True, exist_ok=True)
    if (found := cluster_id_in(storage)) is None:
        write_atomically(storage / META, javaproperties.dumps({"version": "1", "cluster.id": cluster_id}))
    elif found != cluster_id:
        raise StorageNotShared(f"storage.object.cache.path {storage} on this node belongs to cluster {found}")


def cluster_id_in(storage: Path) -> str | None:
    """Read the id of the cluster whose data are there; None if none are."""
    try:
        return javaproperties.loads((storage / META).read_text(encoding="utf-8")).get("cluster.id")
    except OSError:
        return None
