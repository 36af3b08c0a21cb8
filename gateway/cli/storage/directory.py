"""The storage directory: its format, its lock, and the state of the cluster that uses it.

``meta.properties`` contains the format version and the cluster id, as Kafka's file of that name does.
``run/lock`` is held (flock) by the ``muster up`` that uses the directory and contains its pid and host;
``run/cluster.json`` tells the other commands where the cluster is.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import socket
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muster.actors.runtime.files import write_atomically
from muster.gateway.cli.errors import CliError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """State by which other commands find a running cluster. Its file has mode 600: it names the token's file."""

    pid: int
    namespace: str
    ray_address: str
    ray_token_path: str | None
    """The file with Ray's authentication token; None for a Ray without one."""
    ray_temp_dir: str | None
    bootstrap: tuple[str, ...] = ()
    """Empty until the cluster serves."""
    metrics: tuple[str, ...] = ()
    zookeeper: str = ""
    cluster_id: str = ""
    """Id in ``meta.properties``."""

    @property
    def is_own_ray(self) -> bool:
        """Whether Ray ends with the ``muster up``; any other Ray keeps the actors if that is killed."""
        return self.ray_temp_dir is not None


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
    with open(storage / "run" / "lock", "a+", opener=_private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, host = _read_holder(storage)
            where = f" on host {host}" if host not in (None, socket.gethostname()) else ""
            raise CliError(
                f"storage path {storage} is in use by the muster up with pid {pid or 'unknown'}{where}; "
                "stop it there with muster down or choose another with --storage"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()} {socket.gethostname()}")
        lock.flush()
        yield


def holder(storage: Path) -> int | None:
    """Return the pid of the ``muster up`` that uses the directory now, on :func:`holder_host`; None if there is
    none."""
    try:
        with (storage / "run" / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except BlockingIOError:
        return _read_holder(storage)[0]
    return None


def holder_host(storage: Path) -> str | None:
    """Name the host of the last ``muster up`` that used the directory, which hosts may share."""
    return _read_holder(storage)[1]


def _read_holder(storage: Path) -> tuple[int | None, str | None]:
    pid, _, host = (storage / "run" / "lock").read_text(encoding="utf-8").strip().partition(" ")
    return int(pid) if pid.isdigit() else None, host or None


def write_state(storage: Path, state: RunState) -> None:
    """Write where the cluster is."""
    write_atomically(_state_file(storage), json.dumps(asdict(state), indent=2) + "\n")


def read_state(storage: Path) -> RunState | None:
    """Return the state that the last ``muster up`` wrote; None if there is none, or if it stopped in order."""
    try:
        fields: dict[str, Any] = json.loads(_state_file(storage).read_text(encoding="utf-8"))
        return RunState(**{**fields, "bootstrap": tuple(fields["bootstrap"]), "metrics": tuple(fields["metrics"])})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise CliError(f"{_state_file(storage)} is damaged ({error}); remove it") from error


def remove_state(storage: Path) -> None:
    """Remove the state once the cluster has stopped."""
    _state_file(storage).unlink(missing_ok=True)


def _state_file(storage: Path) -> Path:
    return storage / "run" / "cluster.json"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
