"""Restores a backup into an empty storage directory and an empty ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from muster.actors.runtime.words import counted
from muster.gateway.cli.backup import nodes
from muster.gateway.cli.backup.contents import NODES, STORAGE, Manifest, copied, create, durable, sync_directories
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.output import Steps
from muster.gateway.cli.storage import directory as storage_directory
from muster.placement.layout import Malformed
from muster.placement.zookeeper.client import ZooKeeperClient

_IGNORED = {"lost+found"}


def check_storage(storage: Path) -> None:
    """Raise CliError if there is anything in the directory."""
    try:
        left = sorted(entry.name for entry in storage.iterdir() if entry.name not in _IGNORED)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CliError(f"storage path {storage} cannot be read: {error.strerror}") from error
    if left:
        raise CliError(
            f"storage path {storage} is not empty ({left[0]} is there): a restore never replaces data; name another "
            "directory with --storage, or move this one away"
        )


def restore(
    source: Path,
    manifest: Manifest,
    storage: Path,
    zookeeper: Callable[[], AbstractContextManager[ZooKeeperClient]],
    progress: Steps,
) -> int:
    """Copy the files, checking each, then create the nodes. Returns the number of nodes. CliError, OSError.

    Until everything is there, ``muster up`` refuses the directory.
    """
    check_storage(storage)
    storage.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = storage_directory.unfinished_restore(storage)
    unfinished.touch()
    sync_directories(storage)
    progress.step(f"copying {counted(len(manifest.files), 'file')}")
    for file in manifest.files:
        below = Path(file.path)
        is_below = below.parts[0] == STORAGE and ".." not in below.parts
        target = storage / below.relative_to(STORAGE) if is_below else None
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (source / file.path).open("rb") as stored:
            if target is None:
                found = copied(stored, None)
            else:
                with create(target) as copy:
                    found = copied(stored, copy)
                    durable(copy)
        if found != (file.size_bytes, file.sha256):
            raise CliError(f"{source / file.path} has changed since the backup; nothing can be restored from it")
    progress.step("creating the nodes in ZooKeeper")
    with zookeeper() as zk, (source / NODES).open("rb") as lines:
        nodes.check_empty(zk)
        try:
            count = nodes.create_nodes(zk, nodes.read_lines(lines))
        except Malformed as error:
            raise CliError(f"{source / NODES}: {error}") from error
    storage_directory.write_cluster_id(storage, manifest.cluster_id)
    sync_directories(storage)
    unfinished.unlink()
    return count
