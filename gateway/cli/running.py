"""Finds a running Muster: by its storage directory, by its Ray, or by a gateway's address."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.errors import first_line
from muster.actors.runtime.settings import HTTP_ADDRESSES
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.http_client import GatewayUrl, get
from muster.gateway.cli.login import with_login
from muster.gateway.cli.names import NAME, STORAGE_DIRECTORY
from muster.gateway.cli.ray import connection
from muster.gateway.cli.ray.reach import listens
from muster.gateway.cli.storage import directory as storage
from muster.gateway.client.errors import MusterError

_CONNECT_S = 2.0
_STATUS_S = 5.0
"""Limit of each gateway's response; a paused one accepts connections and says nothing."""
_KNOWN_S = 5.0
"""Limit of all attempts to reach the gateways of the start; the last one may take longer."""
F = TypeVar("F", bound=Callable[..., Any])


class RunningMuster(click.Option):
    """Option that tells where a Muster runs, without a gateway's address."""


def by_storage_or_address(command: F) -> F:
    """Add the options ``--storage`` and ``--address``, given to the command as ``directory`` and ``address``."""
    for option in (
        click.option(
            "--address",
            cls=RunningMuster,
            type=NAME,
            metavar="RAY_ADDRESS",
            help="Use the Ray at this address (or auto) instead.",
        ),
        click.option(
            "--storage",
            "directory",
            metavar="DIR",
            type=STORAGE_DIRECTORY,
            default=Path("muster-data"),
            help="Storage directory of the cluster. Default ./muster-data.",
        ),
    ):
        command = option(command)
    return command


def by_http(command: F) -> F:
    """Add those options, and ``--command-config``, for requests over HTTP alone."""
    return by_storage_or_address(with_login(command))


def by_bootstrap(command: F) -> F:
    """Add those options, ``--command-config``, and ``--bootstrap-server``, given as ``bootstrap_server``."""
    option = click.option(
        "--bootstrap-server", type=NAME, metavar="HOST:PORT[,...]", help="Use these gateways, as Kafka's tools do."
    )
    return by_storage_or_address(option(with_login(command)))


def state_of(directory: Path) -> storage.RunState:
    """Return the run state of the Muster that uses the directory. Raises CliError if there is none.

    Includes the state of a ``muster up`` that was killed on a Ray that still runs: its actors may still serve.
    """
    state = storage.read_state(directory)
    if state is None or (state.is_own_ray and storage.holder(directory) is None):
        raise nothing_runs(directory)
    return state


def nothing_runs(directory: Path) -> CliError:
    """Return the error if no Muster uses the directory."""
    return CliError(
        f"no muster runs on storage {directory}; start one with muster up, or name one with --storage or --address"
    )


def bootstrap_servers(bootstrap_server: str | None, directory: Path, address: str | None) -> str:
    """Return addresses of gateways, as Kafka clients take them. Raises CliError if there is none."""
    if bootstrap_server:
        return bootstrap_server
    found = state_of(directory).bootstrap if address is None else ()
    if not any(_listens(server) for server in found):  # nodes may have been added and removed since the start
        found = tuple(actor["address"] for actor in status_of(directory, address)["actors"] if actor["address"])
    if not found:
        raise CliError("no gateway is serving yet; try again when muster status shows one")
    return ",".join(found)


def _listens(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True


def status_of(directory: Path, address: str | None) -> dict[str, Any]:
    """Return the controller's status now: ``nodes``, ``actors`` and more. Raises CliError if there is none.

    From a gateway that served at the start, which asks the controller; else through Ray, which takes seconds of
    processor time.
    """
    found = _status_over_http(known_gateways(directory, address))
    if found is None:
        return status_over_ray(directory, address)
    if address is None and storage.holder(directory) is None:
        _say_left(state_of(directory))
    return found


def known_gateways(directory: Path, address: str | None) -> Iterator[GatewayUrl]:
    """Yield the gateways at the start, from the run state or that Ray's key-value store.

    No further one once those before took some seconds, since their nodes may be gone. Raises CliError if nothing runs
    there.
    """
    if address is None:
        state = state_of(directory)
        content: dict[str, Any] = {"cluster_id": state.cluster_id, "metrics": state.metrics}
    else:
        found = connection.stored(address, os.environ.get("RAY_AUTH_TOKEN_PATH"), HTTP_ADDRESSES)
        content = {"metrics": ()} if found is None else json.loads(found)
    until_s = time.monotonic() + _KNOWN_S
    for url in content["metrics"]:
        if time.monotonic() >= until_s:
            return
        yield GatewayUrl(url, content["cluster_id"])


def _status_over_http(known: Iterable[GatewayUrl]) -> dict[str, Any] | None:
    """Return None if none of the gateways has a status, or may give it to this caller."""
    for gateway in known:
        try:
            return get(gateway, "/v1/status", timeout_s=_STATUS_S)
        except MusterError:  # it responds: the controller does not, or the caller may not
            return None
        except (OSError, HTTPException, ValueError):
            continue
    return None


def status_over_ray(directory: Path, address: str | None) -> dict[str, Any]:
    """Return the status, without a gateway."""
    with connected(directory, address):
        from muster.gateway import cluster

        try:
            status: dict[str, Any] = cluster.cluster_status()
        except Exception as error:
            raise CliError(
                f"the controller does not respond: {first_line(error)}; is muster up still starting?"
            ) from error
        return status


@contextlib.contextmanager
def connected(directory: Path, address: str | None) -> Iterator[None]:
    """Connect this process to the Ray of the selected Muster within. Raises CliError."""
    if address is not None:
        connection.connect(address, os.environ.get("RAY_AUTH_TOKEN_PATH"))
    else:
        _connect_to(state_of(directory), directory)
    import ray

    try:
        yield
    finally:
        ray.shutdown()


def _connect_to(state: storage.RunState, directory: Path) -> None:
    if storage.holder(directory) is not None:
        connection.connect(state.ray_address, state.ray_token_path)
        return
    if not connect_to_left(state, directory):
        raise nothing_runs(directory)
    _say_left(state)


def _say_left(state: storage.RunState) -> None:
    terminal.line(
        f"muster: the muster up with pid {state.pid} was killed, but its actors still serve; "
        "muster down ends them, muster up on the same storage and Ray takes over",
        err=True,
    )


def connect_to_left(state: storage.RunState, directory: Path) -> bool:
    """Connect to the Ray of a killed ``muster up``. Returns whether that Ray runs, with actors of that storage."""
    if not listens(state.ray_address):
        return False
    connection.connect(state.ray_address, state.ray_token_path)
    import ray

    from muster.gateway import cluster

    if cluster.is_left_of(storage.cluster_id(directory)):
        return True
    ray.shutdown()
    return False
