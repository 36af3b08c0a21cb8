"""Choice of a Ray by ``--address auto``.

Ray's own ``auto`` takes any raylet of the machine, including another user's or that of a private ``muster up``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from muster.gateway.cli.errors import CliError

PRIVATE_PREFIX = "muster-ray-"
"""Prefix of the temporary directory of a Ray that Muster started for itself."""


@dataclass(frozen=True, slots=True)
class LocalRay:
    """A raylet of this host."""

    address: str
    """HOST:PORT of its GCS."""
    user: str
    is_own: bool
    """Whether it belongs to this user."""
    is_private: bool = False
    """Whether a ``muster up`` started it for itself."""


def find_ray() -> str:
    """Return the address of the selected Ray: RAY_ADDRESS, else this user's on this host.

    Of several, it is the one that `ray start` recorded last. Raises CliError if there is none, or naming them if
    several run and the recorded one does not.
    """
    return os.environ.get("RAY_ADDRESS") or choose(list(_local_rays()), _last_started())


def choose(rays: Sequence[LocalRay], last_started: str | None) -> str:
    """Return the selected address; see :func:`find_ray`. ``last_started`` may have ended."""
    others = [ray for ray in rays if not ray.is_private]
    addresses = sorted({ray.address for ray in others if ray.is_own})
    if last_started in addresses:
        return last_started
    if len(addresses) == 1:
        return addresses[0]
    if addresses:
        raise CliError(f"several Rays run on this host: {', '.join(addresses)}; choose one with --address")
    known = "".join(f", {ray.address} belongs to {ray.user}" for ray in others)
    raise CliError(
        f"no Ray of this user responds on this host{known}; "
        "start one with ray start, or specify one with --address HOST:PORT"
    )


def _last_started() -> str | None:
    """Return the address that `ray start` recorded; None if there is none, or if it is not readable for us."""
    root = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        return (Path(root) / "ray/ray_current_cluster").read_text().strip()
    except OSError:
        return None


def _local_rays() -> Iterator[LocalRay]:
    for process in psutil.process_iter(["cmdline", "username", "uids"]):
        arguments = dict(text.partition("=")[::2] for text in process.info["cmdline"] or [])
        if "--raylet_socket_name" not in arguments or not (address := arguments.get("--gcs-address")):
            continue
        folders = Path(arguments.get("--temp_dir", "")).parts
        yield LocalRay(
            address=address,
            user=process.info["username"] or "another user",
            is_own=process.info["uids"] is not None and process.info["uids"].real == os.getuid(),
            is_private=any(folder.startswith(PRIVATE_PREFIX) for folder in folders),
        )
