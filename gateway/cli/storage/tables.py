"""``muster tables``: the Parquet tables of a storage directory, read directly."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column
from muster.actors.runtime.words import counted
from muster.actors.tables.compaction import Policy, compact
from muster.actors.tables.inspection import Summary, foreign, summary, verify
from muster.actors.tables.reading import place_of
from muster.actors.tables.schemas import TABLES
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import STORAGE_DIRECTORY
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import print_json, print_table, with_wide
from muster.gateway.cli.suggestions import Commands
from muster.gateway.cli.times import utc

_COLUMNS = ("TABLE", "ROWS", "FILES", "BYTES", Column("OLDEST (UTC)", optional=True), "NEWEST (UTC)")


@click.group(cls=Commands, epilog="Example: muster tables list --storage ./muster-data")
def tables() -> None:
    """List, check and compact the tables for analysis."""


def _storage(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--storage",
        "directory",
        metavar="DIR",
        type=STORAGE_DIRECTORY,
        default=Path("muster-data"),
        help="Storage directory. Default ./muster-data.",
    )(command)


@tables.command("list", epilog="Example: muster tables list --json")
@_storage
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON; times in ms since the epoch.")
def list_(directory: Path, as_json: bool) -> None:
    """List the tables with their rows, files, bytes, and the times of the oldest and newest row (UTC).

    Files whose rows are also in merged files do not count. An unreadable file is in none of the sums.
    """
    metrics = _metrics(directory)
    summaries = [summary(metrics, table) for table in TABLES]
    if as_json:
        print_json([asdict(each) for each in summaries])
    else:
        rows, files, size = (sum(each) for each in zip(*((s.rows, s.files, s.bytes) for s in summaries), strict=True))
        total = f"{counted(rows, 'row')} in {counted(files, 'file')}, {counted(size, 'byte')}"
        print_table(_COLUMNS, [_row(each) for each in summaries], total)
    unreadable = sum(each.unreadable for each in summaries)
    if unreadable:
        terminal.line(f"{counted(unreadable, 'file')} cannot be read; see muster tables verify", err=True)


@tables.command("verify", epilog="Example: muster tables verify samples commits")
@click.argument("names", nargs=-1, metavar="[TABLE]...", type=click.Choice([*TABLES]))
@_storage
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_(names: tuple[str, ...], directory: Path, as_json: bool) -> None:
    """Read all tables, or the named ones, and list files that are damaged, foreign or in the wrong folder.

    Nothing is changed. The exit code is 1 if there is such a file. A listed file can be moved away: the others do not
    depend on it.
    """
    metrics = _metrics(directory)
    found = [] if names else [*foreign(metrics)]
    for name in names or TABLES:
        found += verify(metrics, name)
    if as_json:
        print_json([{"path": str(each.path), "problem": each.problem} for each in found])
    else:
        for each in found:
            terminal.line(f"DAMAGE: {each}")
    if found:
        raise CliError(f"{counted(len(found), 'file')} damaged or foreign")
    if not as_json:
        terminal.line(f"{counted(len(names or TABLES), 'table')} sound")


@tables.command("compact", epilog="Example: muster tables compact --delay-ms 0")
@_storage
@click.option("--delay-ms", type=Whole(0, shown="MS"), help="Value of metrics.compaction.delay.ms. Default 15 minutes.")
@click.option("--grace-ms", type=Whole(0, shown="MS"), help="Value of metrics.compaction.grace.ms. Default a day.")
@click.option(
    "--retention-ms", type=Whole(0, shown="MS"), help="Value of metrics.retention.ms. Default: nothing expires."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compact_(
    directory: Path, delay_ms: int | None, grace_ms: int | None, retention_ms: int | None, as_json: bool
) -> None:
    """Merge each hour's small files into one now, and remove files that were merged longer ago than the grace period.

    A running Muster does this by itself. A run by hand meanwhile is harmless, except with a short --grace-ms: that
    removes files that a job still reads or a stream has not read yet. The exit code is 1 if something was left
    unchanged.
    """
    from muster.actors.config import MusterConfig  # no other command here needs it

    policy = replace(Policy.of(MusterConfig.from_properties({})), retention_ms=retention_ms)
    given = {"delay_ms": delay_ms, "grace_ms": grace_ms}
    policy = replace(policy, **{name: value for name, value in given.items() if value is not None})
    outcome = compact(_metrics(directory), policy, lambda: time.time_ns() // 1_000_000)
    if outcome is None:
        raise CliError(f"another compaction is running on {directory}; try again in a minute")
    if as_json:
        print_json(asdict(outcome))
    else:
        terminal.line(
            f"{counted(outcome.merged, 'file')} merged into {outcome.into}, "
            f"{counted(outcome.removed, 'file')} removed, {counted(outcome.expired, 'hour')} expired"
        )
    for problem in outcome.problems:
        terminal.line(f"left unchanged: {problem}", err=True)
    if outcome.problems:
        raise CliError(f"{counted(len(outcome.problems), 'problem')}")


def _metrics(directory: Path) -> Path:
    if not directory.is_dir():
        raise CliError(f"there is no storage directory {directory}; specify it with --storage")
    if isinstance(place := place_of(directory), str):
        raise CliError(
            f"the tables of {directory} are in {place}, which muster tables does not read; muster spark and "
            "muster.tables.read do, and the cluster compacts them"
        )
    return directory / "metrics"


def _row(each: Summary) -> tuple[Any, ...]:
    return (each.table, each.rows, each.files, each.bytes, _time(each.oldest_ms), _time(each.newest_ms))


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else utc(at_ms)
