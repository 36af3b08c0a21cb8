"""The commands of the comparison with Apache Kafka."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks.cluster import machine
from benchmarks.comparison import (
    data,
    failover,
    footprint,
    growth,
    heartbeats,
    load,
    offsets,
    protected,
    rebalances,
    requests,
    result,
    scaling,
)
from benchmarks.comparison.load import LoadFailed, Plan, Step
from benchmarks.comparison.rows import Rounds, Row, compare
from benchmarks.comparison.servers import Kafka, Kind, Muster, NotStarted, Server, both
from tests.conformance.artifacts import ToolMissing

_ALONE_S = 2.0
_KEPT = Path("build") / "bench-logs"

ROWS: tuple[Row, ...] = (
    footprint.STARTING,
    scaling.ROW,
    footprint.RESTING,
    *heartbeats.ROWS,
    *offsets.ROWS,
    *rebalances.ROWS,
    *data.ROWS,
    *footprint.IDLE,
    *growth.ROWS,
    *protected.ROWS,
    failover.ROW,
)


def _chosen(names: tuple[str, ...]) -> list[Row]:
    """Return the rows whose name is one of these, or begins with one of them."""
    unknown = [name for name in names if not any(row.name.startswith(name) for row in ROWS)]
    if unknown:
        known = ", ".join(row.name for row in ROWS)
        raise click.UsageError(f"no row is called {', '.join(unknown)}; there are {known}")
    return [row for row in ROWS if not names or any(row.name.startswith(name) for name in names)]


def _measure(chosen: Sequence[Row], rounds: int) -> Iterator[Rounds]:
    """Measure in the order of ``chosen``, in which rows that start servers themselves are the first."""
    for row in chosen:
        if row.starts_servers:
            yield _compare(row, NotStarted(Muster.name), NotStarted(Kafka.name), rounds)
    for kind in Kind:
        others = [row for row in chosen if not row.starts_servers and row.kind is kind]
        if not others:
            continue
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder, both(Path(folder), kind) as servers:
            for row in others:
                found = _compare(row, *servers, rounds)
                if found.failure:
                    _report(found, *servers)
                yield found


def _report(failed: Rounds, *servers: Server) -> None:
    """Print why a row failed, and where the logs are: those of the servers are removed with their data."""
    click.echo(f"{failed.row} failed after {len(failed.muster)} rounds: {failed.failure}", err=True)
    for server in servers:
        server.keep_logs(_KEPT / failed.row / server.name)
    click.echo(f"the logs are in {_KEPT / failed.row}", err=True)


def _generator_alone() -> dict[str, float]:
    """Measure the load generator alone: requests per second from a server without any work, by number of
    connections."""
    found: dict[str, float] = {}
    for connections, in_flight in ((10, 1), (100, 1), (500, 1), (50, 20)):
        with load.echo(requests.ERROR_AT + 2 - 4) as address:
            step = Step(requests.heartbeat("group", 1, "member"), error_at=requests.ERROR_AT)
            result = load.run(Plan([(address, [step])] * connections, _ALONE_S, 0.5, in_flight))
        name = f"{connections}" if in_flight == 1 else f"{connections}x{in_flight}"
        found[name] = round(result.per_second)
        click.echo(f"== load generator alone, {name} connections: {found[name]:,} per s", err=True)
    return found


def _compare(row: Row, muster: Server, kafka: Server, rounds: int) -> Rounds:
    click.echo(f"== {row.title}", err=True)
    return compare(row, muster, kafka, rounds)


def _lines(chosen: Sequence[Row], measured: Sequence[Rounds]) -> list[result.Line]:
    rows = {row.name: row for row in chosen}
    return [line for each in measured if each.muster for line in result.lines(rows[each.row], each)]


@click.command()
@click.argument("names", metavar="[ROW]...", nargs=-1)
@click.option("--rounds", default=3, show_default=True, help="Rounds of each row, Muster and Kafka in turn.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures there.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as docs/benchmarks.md has it.")
def kafka(names: tuple[str, ...], rounds: int, json_file: Path | None, as_markdown: bool) -> None:
    """Measure Muster beside Apache Kafka: all rows, or those whose names begin with one of NAMES.

    Exit code 1 if a goal is missed or a row fails.
    """
    chosen, about = _chosen(names), machine()
    try:
        about["load_generator"] = _generator_alone()
    except LoadFailed as error:
        raise click.ClickException(str(error)) from error
    try:
        measured = []
        for each in _measure(chosen, rounds):
            measured.append(each)
            if json_file is not None:  # again after each row: what there is counts, if the rest does not come
                result.write(json_file, _lines(chosen, measured), measured, about)
    except ToolMissing as error:
        raise click.ClickException(str(error)) from error
    found = _lines(chosen, measured)
    if as_markdown:
        click.echo(result.markdown(found, about))
    else:
        result.print_wide(result.table(found, about))
    failures = [each for each in measured if each.failure]
    for each in failures:
        click.echo(f"{each.row} failed after {len(each.muster)} rounds: {each.failure}", err=True)
    sys.exit(1 if failures or any(line.is_met is False for line in found) else 0)


@click.command()
@click.argument("before", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def diff(before: Path, after: Path) -> None:
    """Show two files of ``kafka --json`` beside each other."""
    result.print_wide(result.beside(before, after))


@click.command()
def rows() -> None:
    """List the rows of ``kafka``, and their goals."""
    for row in ROWS:
        goals = "; ".join(f"{goal.figure} {goal.text}" for goal in row.goals)
        click.echo(f"{row.name:24} {row.title}: {goals}")
