"""``muster backup`` and ``muster restore``: their options. :mod:`muster.gateway.cli.backup.work` does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.gateway.cli.names import NAME
from muster.gateway.cli.options import with_properties

_PATH = click.Path(path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])


def _properties(storage: str, zookeeper: str) -> Callable[[F], F]:
    """Add options that a command shares with ``muster up``, with the help of two of them."""

    def add(command: F) -> F:
        hosts = click.option("--zookeeper", "hosts", type=NAME, metavar="HOSTS", help=zookeeper)
        directory = click.option("--storage", "directory", metavar="DIR", help=f"{storage} Default ./muster-data.")
        config = "The property file of muster up: it says how ZooKeeper is reached."
        return with_properties(config)(directory(hosts(command)))

    return add


@click.command("backup", epilog="Example: muster backup /backups/monday --storage ./muster-data")
@click.argument("target", type=_PATH)
@click.option("--verify", is_flag=True, help="Check the backup TARGET instead, by reading all of it.")
@_properties("Storage directory of the cluster.", "HOST:PORT[,...] of its ZooKeeper, if that is not its own.")
@click.option("--without-tables", is_flag=True, help="Leave out the tables for analysis.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(**options: Any) -> None:
    """Copy everything that a Muster has acknowledged to the new directory TARGET.

    Muster may run, or be stopped. While it runs, clients wait for some milliseconds at one moment, and the backup has
    all logs as they were then: records, offsets, groups and transactions fit each other. It needs the storage
    directory, so run it on a node of the cluster, with the property file of muster up if there is one. TARGET exists
    once it is complete; it holds the users' password hashes, so only its owner can read it. muster restore SOURCE
    creates a storage directory from it, for muster up.
    """
    from muster.gateway.cli.backup.work import back_up  # its import takes long

    back_up(**options)


@click.command("restore", epilog="Example: muster restore /backups/monday --storage ./muster-data")
@click.argument("source", type=_PATH)
@_properties(
    "Storage directory to create; it must be empty.",
    "HOST:PORT[,...][/CHROOT] of a ZooKeeper for the nodes. Default: the one that muster up starts.",
)
@click.option("--dry-run", is_flag=True, help="Only check: the backup, and that nothing would be replaced.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def restore_(**options: Any) -> None:
    """Create a storage directory, and the nodes in ZooKeeper, from the backup SOURCE.

    Nothing is replaced: the directory must be empty, and so must ZooKeeper. Then run muster up with the same
    --storage and --zookeeper. Leader epochs and producer ids continue far after those of the backup, so clients of
    the former cluster notice what is missing.
    """
    from muster.gateway.cli.backup.work import restore_from

    restore_from(**options)
