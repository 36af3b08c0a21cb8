"""Where the GCS of a Ray keeps its state, as only its own host can see: by its command line and environment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.ray.find_ray import find_ray
from muster.placement.host_port import host_port


@dataclass(frozen=True, slots=True)
class GcsStore:
    """Neither: in memory."""

    redis: str | None = None
    """HOST:PORT of its Redis."""
    folder: Path | None = None
    """Directory of Ray's embedded store."""


class GcsUnknown(Exception):
    """It cannot be seen from here; the text says why."""


def gcs_store(address: str) -> GcsStore:
    """Return where the GCS at HOST:PORT, or of the Ray that ``auto`` stands for, keeps its state. Raises GcsUnknown."""
    try:
        wanted = find_ray() if address == "auto" else address
    except CliError as error:
        raise GcsUnknown(error.message) from error
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            arguments = _arguments(process)
            at = host_port(arguments.get("--node-ip-address", ""), int(arguments.get("--gcs_server_port", 0)))
            if at == wanted:
                return _store(arguments, process)
    raise GcsUnknown(f"that of {wanted} does not run on this host")


def _store(arguments: Mapping[str, str], process: psutil.Process) -> GcsStore:
    if redis := arguments.get("--redis_address"):
        return GcsStore(redis=host_port(redis, int(arguments.get("--redis_port", 0))))
    try:
        environment = process.environ()
    except psutil.AccessDenied as error:
        raise GcsUnknown("it belongs to another user") from error
    embedded = environment.get("RAY_gcs_storage") == "rocksdb"
    return GcsStore(folder=Path(environment.get("RAY_gcs_storage_path", "")) if embedded else None)


def _arguments(process: psutil.Process) -> dict[str, str]:
    """Return the options of a GCS; of other processes, none."""
    with suppress(psutil.Error):
        if process.name() == "gcs_server":
            return dict(text.partition("=")[::2] for text in process.cmdline())
    return {}
