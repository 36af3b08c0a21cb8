"""Makes a backup: links the files, copies them, reads ZooKeeper, and writes the manifest last."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from muster.actors.runtime.words import counted
from muster.gateway.cli.backup import nodes
from muster.gateway.cli.backup.capture import Captured, capture, hours_of_tables, partitions
from muster.gateway.cli.backup.contents import (
    NODES,
    STORAGE,
    Manifest,
    StoredFile,
    copied,
    create,
    durable,
    sync_directories,
)
from muster.gateway.cli.distribution import installed_version
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.output import Steps
from muster.placement.zookeeper.client import ZooKeeperClient

_LINKS = "backup"
_PARTIAL = ".incomplete-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Source of a backup."""

    storage: Path
    cluster_id: str
    zookeeper: Callable[[], contextlib.AbstractContextManager[ZooKeeperClient]]
    """Connects to its ZooKeeper."""
    at_a_moment: Callable[[Callable[[], list[Captured]]], tuple[list[Captured], Mapping[str, float]]]
    """Calls the function, perhaps repeatedly, the last time while nothing is acknowledged.

    Returns also how long each actor was held for that, in ms.
    """
    was_running: bool
    with_tables: bool


def make_backup(source: Source, target: Path, progress: Steps) -> tuple[Manifest, Mapping[str, float]]:
    """Make the backup ``target``, which does not exist yet; it exists once it is whole. CliError, OSError.

    Returns also how long each actor was held, in ms.

    The order makes a consistent whole: first the moment of the logs, then the tables, then ZooKeeper, whose epochs and
    producer ids are therefore not behind the logs. A topic that was deleted in between is left out of both.
    """
    check_target(target)
    began = now()
    with _links(source.storage) as links, _partial(target) as partial:
        progress.step("capturing logs")
        folders = partitions(source.storage)
        capture(source.storage, folders, links)  # most of the work, before anything has to wait
        captured, held_ms = source.at_a_moment(lambda: capture(source.storage, partitions(source.storage), links))
        cut = now()
        if source.with_tables:
            progress.step("capturing tables")
            captured += capture(source.storage, hours_of_tables(source.storage), links)
        progress.step("reading ZooKeeper")
        with source.zookeeper() as zk, create(partial / NODES) as file:
            found = list(nodes.read_nodes(zk))
            nodes.write_lines(found, file)
            durable(file)
        captured = _of_topics(captured, nodes.topics_of(found), source.storage)
        progress.step(f"copying {counted(len(captured), 'file')}")
        stored = [_nodes_file(partial), *(_copy(file, partial) for file in captured)]
        manifest = Manifest(
            cluster_id=source.cluster_id,
            muster_version=installed_version() or "unknown",
            began=began,
            cut=cut,
            was_running=source.was_running,
            partitions=len({Path(file.path).parent for file in captured if file.path.startswith("logs/")}),
            nodes=len(found),
            files=tuple(stored),
            left_out=() if source.with_tables else ("metrics",),
        )
        sync_directories(partial)
        manifest.write(partial)
        _publish(partial, target)
    return manifest, held_ms


def check_target(target: Path) -> None:
    """Raise CliError if there is something already, or it cannot be created."""
    if target.exists() or target.is_symlink():
        raise CliError(f"{target} exists already; name a directory that does not, one for each backup")
    if not target.absolute().parent.is_dir():
        raise CliError(f"{target.absolute().parent} is no directory; create it, or mount it, first")


def now() -> str:
    """Return the time as in RFC 3339, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@contextlib.contextmanager
def _links(storage: Path) -> Iterator[Path]:
    """Make a folder for hard links, removed afterwards, with the rest of a killed backup.

    Raises CliError if another backup runs.
    """
    folder = storage / "run" / _LINKS
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CliError(f"another muster backup of {storage} is running; wait for it") from None
        _empty(folder)
        try:
            yield folder
        finally:
            _empty(folder)
    finally:
        os.close(lock)


def _empty(folder: Path) -> None:
    for left in folder.iterdir():
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Make a directory beside the target, removed if the backup does not become whole."""
    before = os.umask(0o077)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}{_PARTIAL}", dir=target.absolute().parent))
    try:
        yield partial
    finally:
        os.umask(before)
        shutil.rmtree(partial, ignore_errors=True)


def _publish(partial: Path, target: Path) -> None:
    check_target(target)
    partial.rename(target)
    fd = os.open(target.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _of_topics(captured: list[Captured], topics: set[str], storage: Path) -> list[Captured]:
    """Drop the logs of deleted topics. Raises CliError if there are logs, and not one topic."""
    if not topics and any(file.path.startswith("logs/") for file in captured):
        raise CliError(f"ZooKeeper has no topic, but {storage} has logs: name the ZooKeeper that this Muster uses")

    def is_kept(file: Captured) -> bool:
        kind, directory, *_ = Path(file.path).parts
        return kind != "logs" or directory.rpartition("-")[0] in topics

    return [file for file in captured if is_kept(file)]


def _copy(file: Captured, partial: Path) -> StoredFile:
    path = f"{STORAGE}/{file.path}"
    target = partial / path
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.link.open("rb") as source, create(target) as copy:
        size_bytes, sha256 = copied(source, copy, file.size_bytes)
        durable(copy)
    if size_bytes != file.size_bytes:
        raise CliError(f"{file.path} has lost bytes while it was copied: {size_bytes} of {file.size_bytes} are left")
    file.link.unlink()
    return StoredFile(path, size_bytes, sha256)


def _nodes_file(partial: Path) -> StoredFile:
    with (partial / NODES).open("rb") as file:
        return StoredFile(NODES, *copied(file, None))
