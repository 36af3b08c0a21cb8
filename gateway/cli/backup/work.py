"""The work of ``muster backup`` and ``muster restore``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kazoo.exceptions import NoAuthError

from muster.actors.config import MusterConfig
from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper, ZooKeeperStartError, embedded_access
from muster.gateway.cli.backup.contents import NODES, Manifest, problems
from muster.gateway.cli.backup.making import Source, check_target, make_backup
from muster.gateway.cli.backup.nodes import check_empty, read_lines
from muster.gateway.cli.backup.restoring import check_storage, restore
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.output import Progress, Steps, print_json
from muster.gateway.cli.properties import read_config
from muster.gateway.cli.running import connected, state_of
from muster.gateway.cli.storage import directory as storage_directory
from muster.placement.zookeeper.access import Access
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.ensemble import ensemble_file

_CONNECT_S = 10.0
_MAX_REPORTED = 20


def back_up(
    target: Path,
    verify: bool,
    file: Path | None,
    sets: tuple[str, ...],
    directory: str | None,
    hosts: str | None,
    without_tables: bool,
    as_json: bool,
) -> None:
    """Make or verify a backup, as :func:`muster.gateway.cli.backup.commands.backup` describes."""
    held_ms: Mapping[str, float] | None = None
    if verify:
        manifest = verified(target)
    else:
        check_target(target)
        config = read_config(file, sets, {"storage.path": directory, "zookeeper.connect": hosts})
        with Progress() as progress, _source(config, not without_tables, progress) as source, _with_errors():
            manifest, held_ms = make_backup(source, target, progress)
    if as_json:
        print_json({**manifest.summary(), **({} if held_ms is None else _held(held_ms))})
        return
    done = "is whole" if verify else "is complete"
    terminal.line(
        f"backup {target} {done}: {counted(manifest.partitions, 'partition')}, {counted(manifest.nodes, 'node')} of "
        f"ZooKeeper, {counted(len(manifest.files), 'file')}, {manifest.size_bytes} bytes, as of {manifest.cut}"
    )


def restore_from(
    source: Path,
    file: Path | None,
    sets: tuple[str, ...],
    directory: str | None,
    hosts: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Restore a backup, as :func:`muster.gateway.cli.backup.commands.restore_` describes."""
    config = read_config(file, sets, {"storage.path": directory, "zookeeper.connect": hosts})
    _refuse_bucket(config.bucket)
    storage = config.directory
    check_storage(storage)
    if config.zookeeper_connect is not None:
        with _zookeeper_of(config) as zk:
            check_empty(zk)
    if dry_run:
        manifest = verified(source)
        done = "can be restored"
    else:
        manifest = Manifest.read(source)
        with Progress() as progress, _with_errors():
            restore(source, manifest, storage, lambda: _zookeeper_of(config), progress)
        done = "is restored"
    if as_json:
        print_json({**manifest.summary(), "storage": str(storage), "dry_run": dry_run})
        return
    zookeeper = f" --zookeeper {config.zookeeper_connect}" if config.zookeeper_connect else ""
    terminal.line(
        f"{source} {done}: {counted(manifest.partitions, 'partition')} as of {manifest.cut}; "
        f"next: muster up --storage {storage}{zookeeper}"
    )


def _held(held_ms: Mapping[str, float]) -> dict[str, Any]:
    in_order = sorted(held_ms.items(), key=lambda each: -each[1])
    return {
        "max_held_ms": round(in_order[0][1], 3) if in_order else None,
        "held_ms": {name: round(ms, 3) for name, ms in in_order},
    }


def verified(directory: Path) -> Manifest:
    """Return the manifest of a whole backup. Raises CliError, after a line for each problem."""
    manifest = Manifest.read(directory)
    found = list(problems(directory, manifest))
    for problem in found[:_MAX_REPORTED]:
        terminal.line(f"{directory}: {problem}", err=True)
    if found:
        raise CliError(f"backup {directory} is damaged: {counted(len(found), 'problem')}; restore from another one")
    with (directory / NODES).open("rb") as lines:
        if (count := sum(1 for _ in read_lines(lines))) != manifest.nodes:
            raise CliError(f"backup {directory} is damaged: {count} of {manifest.nodes} nodes of ZooKeeper are there")
    return manifest


def _refuse_bucket(place: str | Path | None) -> None:
    """Raise CliError if that is the URI of a bucket: a node has copies of a part of what is there."""
    if isinstance(place, str):
        raise CliError(
            f"muster backup and restore know directories only, and this Muster lives on {place}; use the versions or "
            "the replication of the bucket"
        )


@contextlib.contextmanager
def _source(config: MusterConfig, with_tables: bool, progress: Steps) -> Iterator[Source]:
    """Yield the source: a running Muster, or the files of a stopped one, which cannot start meanwhile."""
    storage = config.directory
    from muster.actors.tables.reading import place_of  # with pyarrow

    _refuse_bucket(config.bucket or place_of(storage))
    if not (storage / "meta.properties").is_file():
        raise CliError(f"{storage} is no storage directory of a Muster; name one with --storage")
    cluster_id = storage_directory.cluster_id(storage)
    state = storage_directory.read_state(storage)
    if storage_directory.holder(storage) is None and (state is None or state.is_own_ray):
        if config.zookeeper_connect is None and ensemble_file(storage / "zookeeper").exists():
            raise CliError(f"the ZooKeeper of {storage} has its data on nodes: start Muster, and make the backup then")
        if config.zookeeper_connect is None and not (storage / "zookeeper").is_dir():
            raise CliError(f"{storage} has no ZooKeeper of its own; name the one it uses with --zookeeper or --config")
        with storage_directory.locked(storage):
            yield Source(
                storage=storage,
                cluster_id=cluster_id,
                zookeeper=lambda: _zookeeper_of(config),
                at_a_moment=lambda work: (work(), {}),
                was_running=False,
                with_tables=with_tables,
            )
        return
    running = state_of(storage)
    with connected(storage, None):
        from muster.gateway.cli.backup.holding import while_held

        yield Source(
            storage=storage,
            cluster_id=cluster_id,
            zookeeper=lambda: _connected(running.zookeeper, _access(config)),
            at_a_moment=lambda work: while_held(work, progress),
            was_running=True,
            with_tables=with_tables,
        )


@contextlib.contextmanager
def _zookeeper_of(config: MusterConfig) -> Iterator[ZooKeeperClient]:
    """Connect to the configured ZooKeeper, or to the one on the storage, which runs meanwhile."""
    with contextlib.ExitStack() as undo:
        hosts, access = config.zookeeper_connect, config.zookeeper_access
        if hosts is None:
            try:
                data = Path(config.storage_path) / "zookeeper"
                server = undo.enter_context(EmbeddedZooKeeper.start(data, lib=config.zookeeper_server_lib))
                hosts, access = server.hosts, server.secure()
            except (ZooKeeperStartError, ZooKeeperUnreachable) as error:
                raise CliError(str(error)) from error
        yield undo.enter_context(_connected(hosts, access))


def _access(config: MusterConfig) -> Access:
    """Return the access to the ZooKeeper of a running Muster."""
    own = embedded_access(config.directory / "zookeeper")
    is_own = config.zookeeper_connect is None and Path(own.credentials_file or "").exists()
    return own if is_own else config.zookeeper_access


@contextlib.contextmanager
def _connected(hosts: str, access: Access) -> Iterator[ZooKeeperClient]:
    try:
        zk = connect(hosts, access, timeout_s=_CONNECT_S)
    except ZooKeeperUnreachable as error:
        raise CliError(f"{error}; check --zookeeper, and that it runs") from error
    try:
        yield zk
    except ZooKeeperUnreachable as error:
        raise CliError(str(error)) from error
    except NoAuthError as error:
        raise CliError(
            f"ZooKeeper at {hosts} does not let this user read or write all nodes; name the property file of muster "
            "up with --config"
        ) from error
    finally:
        zk.shut()


@contextlib.contextmanager
def _with_errors() -> Iterator[None]:
    """Raise CliError, in one line, for an error of the file system."""
    try:
        yield
    except OSError as error:
        raise CliError(f"{error.filename or 'a file'}: {error.strerror or error}") from error
