"""``python -m benchmarks.spark.beside``: heartbeats through a gateway, with and without a Spark job beside them.

Each round has four parts: no job; a RayDP job over a big table, whose executors yield (:mod:`muster.spark.priority`);
no job again; and the same job with executors that do not yield, for comparison. All parts are in one run, so any other
load of the machine affects all of them.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from benchmarks.cluster import Cluster, machine
from benchmarks.many import warm_up
from benchmarks.members import Heartbeats, Member
from benchmarks.report import Figures, output, output_options, percentile
from benchmarks.spark import runs as spark_runs
from benchmarks.spark.scale import data_option, ended_in_order, planted_end_ms, tables_at
from muster.gateway.cli.times import Size
from muster.spark.jobs import JOBS
from tests.raw_client import Connection, Errors, connect

_PARTITIONS = 4
_CONNECTIONS = 20
_INTERVAL_S = 1.0
_SETTLE_S = 3.0
_REPEATS = 1000
"""The driver repeats the job until it is ended."""
BEFORE, BESIDE, AFTER, NOT_YIELDING = "no job", "a job runs", "no job, afterwards", "a job runs that does not yield"


@dataclass(slots=True)
class Measured:
    """Latencies of heartbeats in s, by what ran at the same time."""

    latencies_s: dict[str, array[float]] = field(default_factory=dict)
    late_s: float = 0.0
    """The benchmark's own largest delay behind its schedule."""
    errors: Errors = field(default_factory=Errors)

    def take(self, kind: str, heartbeats: Heartbeats) -> None:
        self.latencies_s.setdefault(kind, array("d")).extend(heartbeats.latencies_s)
        self.late_s = max(self.late_s, heartbeats.late_s)


@click.command()
@click.option("--samples", default=2.0, show_default=True, help="Rows that the job reads, in millions.")
@data_option
@click.option("--groups", default=300, show_default=True, help="Groups of one member, each a heartbeat per second.")
@click.option("--rounds", default=2, show_default=True)
@click.option("--round-seconds", default=20.0, show_default=True, help="Of each of a round's four parts.")
@click.option("--job", default="consumption", show_default=True, type=click.Choice(tuple(JOBS)))
@click.option("--cores", default=2, show_default=True, help="Of the executor.")
@click.option("--memory", type=Size(), default="1g", show_default=True, help="Heap of the executor.")
@output_options
def main(
    samples: float,
    data: Path | None,
    groups: int,
    rounds: int,
    round_seconds: float,
    job: str,
    cores: int,
    memory: int,
    json_file: Path | None,
    as_markdown: bool,
) -> None:
    """Measure the cost of a job for the groups that are served. Exit code 1 if heartbeats had errors."""
    about, figures = machine(), Figures()
    with ended_in_order(), tempfile.TemporaryDirectory(prefix="muster-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        storage = tables_at(data or folder / "tables", samples)
        with Cluster(folder, gateways=1, properties={"offsets.topic.num.partitions": str(_PARTITIONS)}) as cluster:
            end_ms = planted_end_ms(storage)
            request = spark_runs.request_of(
                storage, (job,) * _REPEATS, cluster, cores=cores, memory_bytes=memory, end_ms=end_ms
            )
            measured = asyncio.run(_measure(cluster, request, folder / "driver.log", groups, rounds, round_seconds))
    _report(measured, figures)
    output(figures, about, json_file, as_markdown)
    sys.exit(0 if figures.met else 1)


async def _measure(cluster: Cluster, request: str, log: Path, groups: int, rounds: int, round_s: float) -> Measured:
    measured = Measured()
    async with _members(cluster, groups, measured.errors) as members:
        for number in range(rounds):
            click.echo(f"bench: round {number + 1} of {rounds}", err=True)
            await _beats(members, BEFORE, round_s, measured)
            await _beside(members, BESIDE, round_s, measured, request, log)
            await _beats(members, AFTER, round_s, measured)
            await _beside(members, NOT_YIELDING, round_s, measured, request, log)
    return measured


@asynccontextmanager
async def _members(cluster: Cluster, groups: int, errors: Errors) -> AsyncIterator[list[Member]]:
    """Run members, each the only one of its group, over a few shared connections."""
    connections: list[Connection] = await connect(cluster.bootstrap[:1], _CONNECTIONS)
    try:
        await warm_up(connections, _PARTITIONS)
        members = [
            Member(connections[number % _CONNECTIONS], f"beside-{number}", "bench", errors) for number in range(groups)
        ]
        await asyncio.gather(*(member.alone() for member in members))
        yield members
    finally:
        for connection in connections:
            connection.close()


async def _beats(members: list[Member], kind: str, seconds: float, measured: Measured) -> None:
    click.echo(f"bench: {kind}", err=True)
    await asyncio.sleep(_SETTLE_S)
    heartbeats = Heartbeats(members, measured.errors, interval_s=_INTERVAL_S)
    try:
        await asyncio.sleep(seconds)
    finally:
        await heartbeats.stop()
    measured.take(kind, heartbeats)


async def _beside(
    members: list[Member], kind: str, seconds: float, measured: Measured, request: str, log: Path
) -> None:
    """Measure heartbeats beside a job. Raises RunFailed if the driver ended before the measurement."""
    click.echo("bench: starting Spark", err=True)
    keep_alive = Heartbeats(members, Errors(), interval_s=_INTERVAL_S * 10)  # sessions must outlast the driver's start
    with spark_runs.driver(request, log, low_priority=kind == BESIDE) as process:
        try:
            await asyncio.to_thread(_until_it_works, process)
        finally:
            await keep_alive.stop()
        await _beats(members, kind, seconds, measured)
        if process.poll() is not None:
            raise spark_runs.RunFailed(spark_runs.last_words(log))
    await asyncio.to_thread(spark_runs.await_no_executors)


def _until_it_works(process: spark_runs.Driver) -> None:
    for said in spark_runs.heard(process):
        if said["what"] == "begins":
            return


def _report(measured: Measured, figures: Figures) -> None:
    milliseconds = {kind: [1000 * latency for latency in held] for kind, held in measured.latencies_s.items()}
    for kind, latencies in milliseconds.items():
        for percent in (50, 99):
            figures.add(kind, f"heartbeat p{percent}", percentile(latencies, percent), "ms")
        figures.add(kind, "slowest heartbeat", max(latencies), "ms")
        figures.add(kind, "heartbeats", len(latencies), "")
    alone = percentile(milliseconds[BEFORE], 99)
    for kind in (BESIDE, NOT_YIELDING):
        figures.add(kind, "p99 over that without", percentile(milliseconds[kind], 99) / alone, "")
    figures.add("all", "this bench behind its own plan, at worst", 1000 * measured.late_s, "ms")
    figures.add("all", "errors", sum(measured.errors.values()), "", 0)


if __name__ == "__main__":
    main()
