"""Connects to a Ray that runs. It imports Ray only then, since that takes long."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.ray.imports import job_config
from muster.actors.runtime.ray.loopback import use_loopback_for
from muster.actors.runtime.ray.public_api import public_api_only
from muster.actors.runtime.ray.store import read
from muster.actors.runtime.settings import NAMESPACE
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.ray.find_ray import find_ray

log = logging.getLogger(__name__)

_CONNECT_S = 5
_HTTP2_SETTINGS = b"\x04"
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0" + _HTTP2_SETTINGS + b"\0\0\0\0\0"
"""First bytes of a client, and an empty frame of SETTINGS, the type with which the server begins (RFC 9113)."""


def connect(address: str, token_path: str | None) -> None:
    """Connect to a running Ray. For ``auto``, see :mod:`muster.gateway.cli.ray.find_ray`.

    CliError if there is none or it refuses us.
    """
    address = _reached(address, token_path)
    import ray

    keep_stdout()
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            job_config=job_config(),
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:
        raise CliError(
            f"no Ray responds at {address}: {first_line(error)}; "
            "check the address, and RAY_AUTH_MODE=token if that Ray requires a token"
        ) from error


def stored(address: str, token_path: str | None, key: str) -> bytes | None:
    """Read a value of Muster's from that Ray's key-value store, which is faster than to connect. None if there is none.

    Raises CliError if there is no Ray.
    """
    return read(_reached(address, token_path), key, NAMESPACE)


def _reached(address: str, token_path: str | None) -> str:
    """Prepare this process for the Ray at the address. Returns the address; ``auto`` only if Ray is to choose."""
    if token_path:
        use_token(Path(token_path))
    if address == "auto" and not public_api_only():
        address = find_ray()
        _use_token_of_user()
    _check_gcs(address)
    use_loopback_for(address)
    return address


def keep_stdout() -> None:
    """Keep stdout for results: Ray writes the complaints of every raylet or autoscaler of the cluster there.

    Every driver does so, whatever ``log_to_driver`` says. They are in Ray's own logs; ``muster -v`` shows them.
    """
    if public_api_only():
        return
    from ray._private import worker

    def to_log(data: Mapping[str, Any], ignore_prefix: bool) -> None:
        for line in data["lines"]:
            log.debug("%s: %s", data.get("pid"), line)

    worker.print_to_stdstream = to_log


def _check_gcs(address: str) -> None:
    """Raise CliError if no server at HOST:PORT speaks HTTP/2, as a GCS does at once; Ray itself takes minutes to
    say."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal() or os.environ.get("RAY_USE_TLS", "0") not in ("0", ""):
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S) as peer:
            if public_api_only():
                return
            peer.sendall(_HTTP2_PREFACE)
            greeting = peer.recv(9, socket.MSG_WAITALL)
    except (OSError, OverflowError) as error:
        raise CliError(f"no Ray responds at {address}: {error}; check the address") from error
    if greeting[3:4] != _HTTP2_SETTINGS:
        raise CliError(f"no Ray responds at {address}: the server there is no GCS; check the address")


def use_token(token_path: Path) -> None:
    """Make this process and its children send that token to Ray. Call it before the first import of ray."""
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token_path), RAY_USAGE_STATS_ENABLED="0")
    os.environ.pop("RAY_AUTH_TOKEN", None)


def _use_token_of_user() -> None:
    """Send an existing token, as Ray does for ``auto``, unless the environment forbids it."""
    has_token = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (
        Path.home() / ".ray/auth_token"
    ).exists()
    if has_token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
