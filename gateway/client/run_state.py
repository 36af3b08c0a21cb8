"""State of the Muster that uses a storage directory, by which commands and programs find it.

``run/lock`` is held (flock) by the ``muster up`` that uses the directory and contains its pid and host;
``run/cluster.json`` says where the cluster is.
"""

from __future__ import annotations

import fcntl
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muster.actors.runtime.files import write_atomically
from muster.gateway.client.errors import InvalidRunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """State by which a running cluster is found. Its file has mode 600: it names the token's file."""

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


def write_state(storage: Path, state: RunState) -> None:
    """Write where the cluster is."""
    write_atomically(_state_file(storage), json.dumps(asdict(state), indent=2) + "\n")


def read_state(storage: Path) -> RunState | None:
    """Return the state that the last ``muster up`` wrote; None if there is none, or if it stopped in order.

    Raises InvalidRunState.
    """
    try:
        fields: dict[str, Any] = json.loads(_state_file(storage).read_text(encoding="utf-8"))
        return RunState(**{**fields, "bootstrap": tuple(fields["bootstrap"]), "metrics": tuple(fields["metrics"])})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidRunState(f"{_state_file(storage)} is damaged ({error}); remove it") from error


def remove_state(storage: Path) -> None:
    """Remove the state once the cluster has stopped."""
    _state_file(storage).unlink(missing_ok=True)


def holder(storage: Path) -> int | None:
    """Return the pid of the ``muster up`` that uses the directory now, on :func:`holder_host`; None if there is
    none."""
    try:
        with lock_file(storage).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except BlockingIOError:
        return read_holder(storage)[0]
    return None


def holder_host(storage: Path) -> str | None:
    """Name the host of the last ``muster up`` that used the directory, which hosts may share."""
    return read_holder(storage)[1]


def read_holder(storage: Path) -> tuple[int | None, str | None]:
    """Return pid and host of the last ``muster up`` that locked the directory."""
    pid, _, host = lock_file(storage).read_text(encoding="utf-8").strip().partition(" ")
    return int(pid) if pid.isdigit() else None, host or None


def lock_file(storage: Path) -> Path:
    """Return the file that the ``muster up`` locks."""
    return storage / "run" / "lock"


def _state_file(storage: Path) -> Path:
    return storage / "run" / "cluster.json"
