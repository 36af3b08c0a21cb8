"""Start of Spark by ``muster spark`` and ``muster report``: the process that runs it replaces them.

The gateway's package does not import that of the jobs; what they share is the request, a JSON object on the command
line of ``python -m muster.spark.command``. Since that process takes their place (exec), signals, the terminal and the
exit code need no intermediary.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from muster.actors.runtime.ray.imports import let_processes_import
from muster.actors.tables.reading import place_of
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Real, Whole
from muster.gateway.cli.running import by_storage_or_address, state_of
from muster.gateway.cli.times import Moment, Size, Zone
from muster.gateway.client.errors import MusterError

F = TypeVar("F", bound=Callable[..., Any])

_MIN_MEMORY_BYTES = 450 << 20
"""Spark refuses a smaller heap."""


def spark_options(command: F) -> F:
    """Add the options of every command that runs jobs; the command passes them all to :func:`become_spark`."""
    for option in reversed(
        (
            click.option(
                "--from", "start", type=Moment(), help="Start: ISO 8601, or -1h, -7d. Default: the first row."
            ),
            click.option("--to", "end", type=Moment(), help="End, in the same formats. Default: now."),
            click.option(
                "--group", "groups", multiple=True, type=NAME, metavar="GROUP", help="Only this group. May be repeated."
            ),
            click.option(
                "--bucket", "bucket_seconds", type=Whole(1, shown="SECONDS"), help="Step of time series. Default 60."
            ),
            click.option("--top", type=Whole(1), help="Maximum rows of a ranking. Default 20."),
            click.option(
                "--price-per-gib",
                type=Real(shown="PRICE"),
                help="Charge groups for the bytes sent to them.",
            ),
            click.option("--timezone", type=Zone(), help="Time zone of days and hours. Default UTC."),
            click.option(
                "--commits-flush-ms",
                type=Whole(100, shown="MS"),
                help="lag: metrics.commits.flush.ms of the cluster, if it is not 10000.",
            ),
            click.option(
                "--end-offsets-flush-ms",
                type=Whole(100, shown="MS"),
                help="lag: metrics.end.offsets.flush.ms of the cluster, if it is not 10000.",
            ),
            click.option("--lag-intervals", type=Whole(2), help="lag: number of commits per verdict. Default 10."),
            click.option("--what-if-partitions", type=Whole(1), help="placement: assume this many offsets partitions."),
            click.option("--what-if-nodes", type=Whole(1), help="placement: assume this many nodes."),
            click.option("--local", is_flag=True, help="Run Spark on this machine instead of through RayDP."),
            click.option(
                "--executors",
                type=Whole(1),
                default=1,
                show_default=True,
                help="Number of executors, as actors on the Ray cluster.",
            ),
            click.option(
                "--executor-cores",
                type=Whole(1),
                default=1,
                show_default=True,
                help="Cores of each; with --local, of this machine.",
            ),
            click.option(
                "--executor-memory",
                type=Size(),
                default="512m",
                show_default=True,
                help="Heap of each; with --local, of this machine.",
            ),
        )
    ):
        command = option(command)
    return by_storage_or_address(command)


def become_spark(
    *,
    jobs: tuple[str, ...],
    directory: Path,
    address: str | None,
    local: bool,
    executors: int,
    executor_cores: int,
    executor_memory: int,
    output: str,
    out: Path | None,
    extent: str = "",
    stream: bool = False,
    once: bool = False,
    **options: Any,
) -> NoReturn:
    """Continue as ``python -m muster.spark.command``. Raises CliError without a cluster, or with contradictory
    options."""
    start, end = options["start"], options["end"]
    if start is not None and end is not None and start >= end:
        raise CliError(f"--from {start.isoformat()} is not before --to {end.isoformat()}")
    if executor_memory < _MIN_MEMORY_BYTES:
        raise CliError("each executor needs at least 450m of memory; give more with --executor-memory")
    ray_address, token_path = (None, None) if local else _ray_of(directory, address)
    place = place_of(directory)
    request = {
        "storage": str(directory.absolute()),
        "bucket": place if isinstance(place, str) else None,
        "jobs": jobs,
        "options": options,
        "format": output,
        "extent": extent,
        "out": str(out.absolute()) if out else None,
        "ray_address": ray_address,
        "ray_token_path": token_path,
        "executors": executors,
        "executor_cores": executor_cores,
        "executor_memory_bytes": executor_memory,
        "stream": stream,
        "once": once,
    }
    let_processes_import()
    sys.stdout.flush()
    sys.stderr.flush()
    text = json.dumps(request, default=datetime.isoformat)
    os.execv(
        sys.executable, [sys.executable, "-P", "-m", "muster.spark.command", text]
    )  # -P: do not import a user's folder named spark


def _ray_of(directory: Path, address: str | None) -> tuple[str, str | None]:
    """Return the address of its GCS, and the file with its token."""
    if address is not None:
        return address, os.environ.get("RAY_AUTH_TOKEN_PATH")
    try:
        state = state_of(directory)
    except MusterError as error:
        raise CliError(f"{error.message}; --local reads its tables without it") from error
    return state.ray_address, state.ray_token_path
