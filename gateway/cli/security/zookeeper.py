"""``muster zookeeper``: protects the nodes of an existing tree, or opens them; replaces a server of Muster's own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from kazoo.exceptions import KazooException

from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Real
from muster.gateway.cli.options import with_properties
from muster.gateway.cli.properties import read_config
from muster.gateway.cli.running import by_storage_or_address, connected
from muster.gateway.cli.suggestions import Commands
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.securing import secure, unsecure

if TYPE_CHECKING:
    from muster.actors.config import MusterConfig

_TIMEOUT_S = 10.0
_POLL_S = 0.5
F = TypeVar("F", bound=Callable[..., Any])


def _properties(command: F) -> F:
    hosts = click.option(
        "--zookeeper", "hosts", type=NAME, metavar="HOSTS", help="HOST:PORT[,...][/CHROOT], zookeeper.connect."
    )
    return with_properties()(hosts(command))


@click.group(cls=Commands, epilog="Example: muster zookeeper secure --config muster.properties")
def zookeeper() -> None:
    """Restrict or open access to Muster's ZooKeeper nodes, or replace a server.

    secure and unsecure are like Kafka's zookeeper-security-migration. New nodes are protected with
    zookeeper.set.acl=true, and always in the ZooKeeper that Muster runs itself.
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


@zookeeper.command("replace", epilog="Example: muster zookeeper replace 10.0.0.12 --storage /srv/muster")
@click.argument("server", metavar="ADDRESS", type=NAME)
@click.option("--by", "new", metavar="ADDRESS", type=NAME, help="Address of the node. Default: one without a server.")
@click.option(
    "--timeout", "timeout_s", metavar="S", type=Real(), default=120.0, show_default=True, help="Seconds to wait."
)
@by_storage_or_address
def replace_command(server: str, new: str | None, timeout_s: float, directory: Path, address: str | None) -> None:
    """Run a server of Muster's own ensemble on another node.

    ADDRESS is that of the node with the server, which is lost for good or is to be removed. The other two must serve.
    The new server begins without data, and gets those of the others; the command ends when it serves.
    """
    with connected(directory, address):
        from muster.gateway import cluster

        try:
            place = cluster.call_controller("replace_zookeeper", server, new)
            _await_server(place, lambda: cluster.cluster_status()["zookeeper"], timeout_s)
        except cluster.ClusterError as error:
            raise CliError(str(error)) from error
        terminal.line(f"the server of {server} is replaced by one at {place}")


def _await_server(place: str, servers: Callable[[], Sequence[Mapping[str, Any]]], timeout_s: float) -> None:
    until_s = time.monotonic() + timeout_s
    while True:
        if any(each["address"].rpartition(":")[0].strip("[]") == place and each["mode"] for each in servers()):
            return
        if time.monotonic() > until_s:
            raise CliError(
                f"the server at {place} does not serve within {timeout_s:g} s; it continues to try: see muster status, "
                "run/log/controller.log and run/log/zookeeper-<id>.log"
            )
        time.sleep(_POLL_S)


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
