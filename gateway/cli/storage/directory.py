"""The storage directory: its format, its lock, and the state of the cluster that uses it.

``meta.properties`` contains the format version and the cluster id, as Kafka's file of that name does. For the files
in ``run``, see :mod:`muster.gateway.client.run_state`.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

from muster.actors.runtime.files import write_atomically
from muster.gateway.cli.errors import CliError
from muster.gateway.client.run_state import (
    RunState,
    holder,
    holder_host,
    lock_file,
    read_holder,
    read_state,
    remove_state,
    write_state,
)

__all__ = [
    "FORMAT_VERSION",
    "RunState",
    "cluster_id",
    "holder",
    "holder_host",
    "locked",
    "read_state",
    "remove_state",
    "unfinished_restore",
    "write_cluster_id",
    "write_state",
]

FORMAT_VERSION = 1


def cluster_id(storage: Path) -> str:
    """Return the id of the cluster whose data are there, generated if there are none.

    Raises CliError if the format is too new.
    """
    meta = storage / "meta.properties"
    if not meta.exists():
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        write_cluster_id(storage, made)
        return made
    import javaproperties  # it takes long, and commands call this once nothing else says it

    properties = javaproperties.loads(meta.read_text(encoding="utf-8"))
    try:
        version, known = int(properties["version"]), properties["cluster.id"]
    except (KeyError, ValueError):
        raise CliError(f"{meta} is damaged: version and cluster.id are expected in it") from None
    if version > FORMAT_VERSION:
        raise CliError(
            f"storage path {meta.parent} has format version {version}, this Muster reads up to "
            f"{FORMAT_VERSION}; use a newer Muster or another --storage"
        )
    return known


def write_cluster_id(storage: Path, cluster_id: str) -> None:
    """Assign the data in the directory to that cluster from now on. Raises OSError."""
    import javaproperties

    properties = {"version": str(FORMAT_VERSION), "cluster.id": cluster_id}
    write_atomically(storage / "meta.properties", javaproperties.dumps(properties))


def unfinished_restore(storage: Path) -> Path:
    """Return the file that is there while a restore has not completed."""
    return storage / "restore-unfinished"


@contextlib.contextmanager
def locked(storage: Path) -> Iterator[None]:
    """Lock the directory for this process. Raises CliError naming the holder if another process has it."""
    with open(lock_file(storage), "a+", opener=_private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, host = read_holder(storage)
            where = f" on host {host}" if host not in (None, socket.gethostname()) else ""
            raise CliError(
                f"storage path {storage} is in use by the muster up with pid {pid or 'unknown'}{where}; "
                "stop it there with muster down or choose another with --storage"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()} {socket.gethostname()}")
        lock.flush()
        yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
