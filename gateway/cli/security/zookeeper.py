"""``muster zookeeper``: protects the nodes of an existing tree, or opens them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from kazoo.exceptions import KazooException

from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.options import with_properties
from muster.gateway.cli.properties import read_config
from muster.gateway.cli.suggestions import Commands
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.securing import secure, unsecure

if TYPE_CHECKING:
    from muster.actors.config import MusterConfig

_TIMEOUT_S = 10.0
F = TypeVar("F", bound=Callable[..., Any])


def _properties(command: F) -> F:
    hosts = click.option(
        "--zookeeper", "hosts", type=NAME, metavar="HOSTS", help="HOST:PORT[,...][/CHROOT], zookeeper.connect."
    )
    return with_properties()(hosts(command))


@click.group(cls=Commands, epilog="Example: muster zookeeper secure --config muster.properties")
def zookeeper() -> None:
    """Restrict or open access to Muster's ZooKeeper nodes.

    Like Kafka's zookeeper-security-migration. New nodes are protected with zookeeper.set.acl=true, and always in the
    ZooKeeper that Muster runs itself.
    """


@zookeeper.command("secure", epilog="Example: muster zookeeper secure --config muster.properties")
@_properties
def secure_command(file: Path | None, sets: tuple[str, ...], hosts: str | None) -> None:
    """Let only Muster change its nodes.

    Everyone may read them, but for users, brokers' configs, ACLs and the key of logins. Set zookeeper.set.acl=true for
    the next start, too: without it, new nodes are open.
    """
    with _client(read_config(file, sets, {"zookeeper.connect": hosts})) as zk:
        terminal.line(f"{counted(secure(zk), 'node')} can only be changed by Muster now", err=True)


@zookeeper.command("unsecure", epilog="Example: muster zookeeper unsecure --config muster.properties")
@_properties
def unsecure_command(file: Path | None, sets: tuple[str, ...], hosts: str | None) -> None:
    """Let anyone who reaches ZooKeeper read and change Muster's nodes."""
    with _client(read_config(file, sets, {"zookeeper.connect": hosts})) as zk:
        terminal.line(f"{counted(unsecure(zk), 'node')} can be changed by anyone now", err=True)


@contextlib.contextmanager
def _client(config: MusterConfig) -> Iterator[ZooKeeperClient]:
    hosts, access = config.zookeeper_connect, config.zookeeper_access
    if hosts is None:
        raise CliError("name a ZooKeeper with --zookeeper; the one that Muster runs is always protected")
    if access.credentials_file is None and access.certificate_file is None:
        raise CliError("Muster has no identity for ZooKeeper: set zookeeper.credentials.file, or a certificate")
    try:
        zk = connect(hosts, access, timeout_s=_TIMEOUT_S)
    except ZooKeeperUnreachable as error:
        raise CliError(str(error)) from error
    try:
        yield zk
    except (KazooException, ZooKeeperUnreachable) as error:
        raise CliError(f"ZooKeeper refuses: {error or type(error).__name__}; check the credentials") from error
    finally:
        zk.shut()
