"""``muster down``: stop the Muster of a storage directory, from another shell."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import click
import psutil

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import STORAGE_DIRECTORY
from muster.gateway.cli.numbers import Real
from muster.gateway.cli.output import Progress
from muster.gateway.cli.running import connect_to_left
from muster.gateway.cli.storage import directory as storage

_PAUSE_S = 0.1


@click.command(epilog="Example: muster down --storage ./muster-data")
@click.option(
    "--storage",
    "directory",
    metavar="DIR",
    type=STORAGE_DIRECTORY,
    default=Path("muster-data"),
    help="Storage directory of the cluster. Default ./muster-data.",
)
@click.option(
    "--timeout", "timeout_s", metavar="S", type=Real(), default=60.0, show_default=True, help="Seconds to wait."
)
@click.option("--if-running", is_flag=True, help="Succeed if none runs.")
def down(directory: Path, timeout_s: float, if_running: bool) -> None:
    """Stop the muster up of a storage directory, and wait until it has ended.

    It must run on this host. If it was killed and its actors still serve on a Ray that it did not start, they are
    stopped. The data stay in the directory.
    """
    with Progress() as progress:
        if (pid := storage.holder(directory)) is not None:
            if (host := storage.holder_host(directory)) not in (None, socket.gethostname()):
                raise CliError(f"the muster up on storage {directory} runs on host {host}; run muster down there")
            progress.step(f"stopping the muster up with pid {pid}")
            _stop(pid, timeout_s)
        elif not _stop_left(directory, progress):
            if if_running:
                return
            raise CliError(f"no muster runs on storage {directory}: nothing to stop; name another with --storage")
        progress.step("stopped")


def _stop_left(directory: Path, progress: Progress) -> bool:
    """End the actors of a ``muster up`` that was killed. Returns whether there were any."""
    left = storage.read_state(directory)
    if left is None or left.is_own_ray:
        return False
    with storage.locked(directory):
        if not connect_to_left(left, directory):
            return False
        import ray

        from muster.gateway import cluster

        progress.step(f"stopping the actors that the killed muster up with pid {left.pid} left on {left.ray_address}")
        cluster.stop_cluster()
        ray.shutdown()
        storage.remove_state(directory)
    return True


def _stop(pid: int, timeout_s: float) -> None:
    try:
        process = psutil.Process(pid)
        process.send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied:
        raise CliError(f"pid {pid} belongs to another user; stop it as that user") from None
    until = time.monotonic() + timeout_s
    while not _gone(process):
        if time.monotonic() > until:
            raise CliError(f"pid {pid} has not stopped within {timeout_s:g} s; kill -9 {pid} ends it at once")
        time.sleep(_PAUSE_S)


def _gone(process: psutil.Process) -> bool:
    """Return whether it has ended, even if its parent has not collected its exit code."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
