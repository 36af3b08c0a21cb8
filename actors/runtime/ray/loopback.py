"""A Ray that listens on 127.0.0.1 only, as ``muster up`` starts it for its own use.

Ray replaces a loopback address by the machine's and makes its servers listen on all interfaces, except in its
single-node mode for macOS and Windows. This module selects that mode.
"""

from __future__ import annotations

import os
import sys
from ipaddress import ip_address

import psutil

from muster.actors.runtime.ray.public_api import public_api_only

ADDRESS = "127.0.0.1"
_MODE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def use_loopback() -> None:
    """Make this process, and those that it starts, use 127.0.0.1 as Ray's address."""
    os.environ[_MODE] = "0"
    if (constants := sys.modules.get("ray._private.ray_constants")) is not None:  # it has read the environment
        constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]


def use_loopback_for(address: str) -> None:
    """Call :func:`use_loopback` if the Ray whose GCS is at ``address`` (HOST:PORT) was started this way."""
    if public_api_only():
        return
    if _is_loopback(address.rpartition(":")[0]) and any(
        f"--gcs-address={address}" in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
    ):
        use_loopback()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
