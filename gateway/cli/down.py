"""``muster down``: stop the Muster of a storage directory, from another shell."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import click
import psutil

from gateway.cli import storage
from gateway.cli.errors import CliError
from gateway.cli.output import Progress

_PAUSE_S = 0.1


@click.command(epilog="Example: muster down --storage ./muster-data")
@click.option(
    "--storage",
    "directory",
    type=click.Path(path_type=Path),
    default=Path("muster-data"),
    help="Storage directory of the Muster that is meant. Default ./muster-data.",
)
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds to wait for it.")
def down(directory: Path, timeout_s: float) -> None:
    """Stop the muster up that uses a storage directory, and wait until it is gone.

    It must run on this host. Data stay in the directory.
    """
    pid = storage.holder(directory)
    if pid is None:
        raise CliError(f"no muster runs on storage {directory}; say which with --storage")
    with Progress() as progress:
        progress.step(f"stopping the muster up with pid {pid}")
        _stop(pid, timeout_s)
        progress.step("stopped")


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
    """Also when whoever started it has not yet asked for its exit code."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
