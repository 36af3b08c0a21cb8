"""Parts that every actor process needs once: a clock, a log file, a path for its sockets."""

from __future__ import annotations

import logging
import logging.handlers
import os
import tempfile
import time
from pathlib import Path

from muster.actors.runtime.logs.json_lines import JsonFormatter
from muster.actors.runtime.settings import JSON_LOG, LogFormat
from muster.actors.runtime.terminal import LogFormatter

_LINE, _TIME = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"


def _start_clock() -> None:
    global _STARTED_WALL_MS, _STARTED_MONOTONIC_NS
    _STARTED_WALL_MS, _STARTED_MONOTONIC_NS = time.time_ns() // 1_000_000, time.monotonic_ns()


_STARTED_WALL_MS = _STARTED_MONOTONIC_NS = 0
_start_clock()
os.register_at_fork(after_in_child=_start_clock)  # workers are forked long after this was imported


def now_ms() -> int:
    """Milliseconds since the Unix epoch that never go back or jump while the process lives."""
    return _STARTED_WALL_MS + (time.monotonic_ns() - _STARTED_MONOTONIC_NS) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since the Unix epoch by the machine's clock; for times that other processes compare."""
    return time.time_ns() // 1_000_000


def socket_path(cluster_id: str, actor: str) -> Path:
    """Return a node-local path for an actor's Unix domain socket; short: such paths are limited to 107 bytes.

    Each process has its own path: a successor must not take that of a predecessor that is only paused.
    """
    return _sockets(cluster_id) / f"{actor}-{os.getpid()}.sock"


def holder_path(cluster_id: str, node_id: str) -> Path:
    """Return a path for the Unix domain socket of this process, as one that holds gateways' listening sockets."""
    return socket_path(cluster_id, f"holder-{node_id[:16]}")


def holder_paths(cluster_id: str, node_id: str) -> list[Path]:
    """Return the paths of the node's processes that hold gateways' listening sockets; some may have ended."""
    return sorted(_sockets(cluster_id).glob(f"holder-{node_id[:16]}-*.sock"))


def _sockets(cluster_id: str) -> Path:
    return Path(tempfile.gettempdir()) / f"muster-{os.getuid()}-{cluster_id[:12]}"


def log_folder(storage: Path) -> Path:
    """Return the folder with the logs of all actors, whichever node they are on."""
    return storage / "run" / "log"


def keep_files_private() -> None:
    """From now on, files and directories that this process and its children create are for this user alone."""
    os.umask(0o077)


def log_to_file(storage: Path, actor: str, log_format: LogFormat) -> None:
    """Send the log of this process to ``storage/run/log/<actor>.log`` (4 files of 8 MiB) and to stderr.

    Called first in every process of an actor, so all that it creates is private.
    """
    keep_files_private()  # Ray, which started this process, may have another umask
    folder = log_folder(storage)
    folder.mkdir(parents=True, exist_ok=True)
    to_file = logging.handlers.RotatingFileHandler(
        folder / f"{actor}.log", maxBytes=8 << 20, backupCount=3, encoding="utf-8"
    )
    form = JsonFormatter(actor) if log_format == JSON_LOG else LogFormatter(_LINE, _TIME)
    root = logging.getLogger()
    for handler in (to_file, logging.StreamHandler()):
        handler.setFormatter(form)
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
