"""``muster up``: check everything, start everything, serve until stopped, stop in order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.files import write_atomically
from muster.actors.runtime.settings import JSON_LOG, LogFormat
from muster.gateway.cli.errors import CliError, StopRequested
from muster.gateway.cli.lifecycle.detach import detach
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.options import with_properties
from muster.gateway.cli.output import LoggedSteps, Progress, log_as_json
from muster.gateway.cli.properties import read_config

_STOPPING = "stopping; a second signal exits at once"


@click.command(epilog="Example: muster up --gateways 3 --storage ./muster-data --set num.partitions=6")
@with_properties("Property file with Kafka's names.")
@click.option(
    "--gateways", type=NAME, metavar="N", help="Number of gateways. Default 1; with --address, one on every node."
)
@click.option(
    "--port",
    type=NAME,
    metavar="P",
    help="Port of the first gateway; the others count up. 0 picks free ports, also for /metrics. Default 9092.",
)
@click.option("--storage", "directory", metavar="DIR", help="Storage directory. Default ./muster-data.")
@click.option(
    "--zookeeper",
    "hosts",
    type=NAME,
    metavar="HOSTS",
    help="HOST:PORT[,...] of a running ZooKeeper. Default: start one.",
)
@click.option(
    "--address", type=NAME, metavar="RAY_ADDRESS", help="Address of a running Ray, or auto. Default: start one."
)
@click.option("--nodes", metavar="N", type=Whole(1), help="With --address: wait for N nodes first, at most 5 min.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Let other hosts in without authentication: listeners.unauthenticated.enable=true.",
)
@click.option(
    "--detach",
    "log_file",
    metavar="LOG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Continue in the background once it serves; output is appended to LOG.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write as JSON once everything serves.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of stderr and of all actors' logs: text, or a JSON object on each line. Default text.",
)
def up(
    file: Path | None,
    sets: tuple[str, ...],
    gateways: str | None,
    port: str | None,
    directory: str | None,
    hosts: str | None,
    address: str | None,
    nodes: int | None,
    insecure: bool,
    log_file: Path | None,
    ready_file: Path | None,
    log_format: LogFormat,
) -> None:
    """Start Muster and serve until SIGINT or SIGTERM.

    Starts Ray, ZooKeeper and the actors, then prints one line to stdout:
    "muster ready bootstrap=HOST:PORT[,...] metrics=URL[,...] zookeeper=HOSTS logs=DIR console=URL".
    Data stay in the storage directory; the next start restores topics, groups and offsets from it.
    Flags override --set, and --set overrides the property file.
    """
    if log_format == JSON_LOG:
        log_as_json("muster up")
    flags = {"gateway.count": gateways, "port": port, "storage.path": directory, "zookeeper.connect": hosts}
    flags["listeners.unauthenticated.enable"] = "true" if insecure else None
    config = read_config(file, sets, flags)
    if nodes is not None and address is None:
        raise click.UsageError("--nodes needs --address: Muster's own Ray has one node")
    if ready_file:
        _remove_old(ready_file)
    if log_file:
        detach(log_file)
    steps = contextlib.nullcontext(LoggedSteps()) if log_format == JSON_LOG else Progress()
    with steps as progress, _stopping_on_signals() as signals, contextlib.ExitStack() as undo:
        try:
            from muster.gateway.cli.lifecycle.start import Start

            start = Start(config, address, progress, undo, nodes=nodes or 1, log_format=log_format)
            ready = start.run()
            progress.rest()
            if ready_file:
                undo.callback(ready_file.unlink, missing_ok=True)
                write_atomically(ready_file, json.dumps(ready.as_dict()) + "\n")
            terminal.line(ready.line())
            start.watch(lambda: signals.stopping)
            progress.step(_STOPPING)
        except (StopRequested, SystemExit):  # while Ray starts, it turns SIGTERM into SystemExit
            progress.step(_STOPPING)
        except Exception:
            if not signals.stopping:
                raise
            progress.step(_STOPPING)  # Ray's C code replaced our exception with another one
        finally:
            signals.stopping = True


class _Signals:
    """The first signal raises StopRequested in the main thread; one during the stop ends the process at once."""

    def __init__(self) -> None:
        self.stopping = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.stopping:
            os._exit(128 + number)
        self.stopping = True
        raise StopRequested


@contextlib.contextmanager
def _stopping_on_signals() -> Iterator[_Signals]:
    signals = _Signals()
    before = {number: signal.signal(number, signals) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _remove_old(ready_file: Path) -> None:
    """Remove an earlier start's ready file, which must not look like this one's. CliError if there can be none."""
    try:
        ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise CliError(f"ready file {ready_file} cannot be written: {error.strerror}; use another path") from error
    if not os.access(ready_file.absolute().parent, os.W_OK):
        raise CliError(f"ready file {ready_file} cannot be written: its directory does not exist; use another path")
