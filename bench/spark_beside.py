"""``python -m bench.spark_beside``: heartbeats through a gateway, with and without a Spark job on the same cluster.

Rounds without and with a job take turns in one run, so that what the machine does besides is in both.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from array import array
from pathlib import Path

import click

from bench import spark_runs
from bench.client import Errors, connect
from bench.cluster import Cluster, machine
from bench.many import warm_up
from bench.members import Heartbeats, Member
from bench.report import Figures, markdown, percentile, print_table, write_json
from bench.tables import make

_PARTITIONS = 4
_CONNECTIONS = 20
_INTERVAL_S = 1.0
_SETTLE_S = 3.0


@click.command()
@click.option("--samples", default=2.0, show_default=True, help="Rows that the job reads, in millions.")
@click.option("--groups", default=300, show_default=True, help="Groups of one member, each a heartbeat per second.")
@click.option("--rounds", default=3, show_default=True, help="Of each kind.")
@click.option("--round-seconds", default=20.0, show_default=True)
@click.option("--job", default="consumption", show_default=True)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures there.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as docs/benchmarks.md has it.")
def main(
    samples: float,
    groups: int,
    rounds: int,
    round_seconds: float,
    job: str,
    json_file: Path | None,
    as_markdown: bool,
) -> None:
    """Measure what a job costs those who are served. Exit code 1 if heartbeats had errors."""
    about, figures = machine(), Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        click.echo("bench: making tables", err=True)
        made = make(folder / "tables", int(samples * 1e6))
        properties = {"offsets.topic.num.partitions": str(_PARTITIONS)}
        with Cluster(folder, gateways=1, properties=properties) as cluster:
            request = spark_runs.request_of(
                folder / "tables", (job,) * 100, cluster, cores=1, memory_bytes=512 << 20, end_ms=made.planted.end_ms
            )
            asyncio.run(_measure(cluster, request, folder, groups, rounds, round_seconds, figures))
    if as_markdown:
        click.echo(markdown(figures, about))
    else:
        print_table(figures, about)
    if json_file is not None:
        write_json(json_file, figures, about)
    sys.exit(0 if figures.met else 1)


async def _measure(
    cluster: Cluster, request: str, folder: Path, groups: int, rounds: int, round_s: float, figures: Figures
) -> None:
    errors = Errors()
    connections = await connect(cluster.bootstrap[:1], _CONNECTIONS)
    await warm_up(connections, _PARTITIONS)
    members = [
        Member(connections[number % _CONNECTIONS], f"beside-{number}", "bench", errors) for number in range(groups)
    ]
    await asyncio.gather(*(member.alone() for member in members))
    alone, beside = array("d"), array("d")
    for number in range(rounds):
        click.echo(f"bench: round {number + 1} of {rounds}", err=True)
        alone.extend(await _round(members, errors, round_s))
        driver = await asyncio.to_thread(spark_runs.start, request, folder / "driver.log")
        try:
            await asyncio.to_thread(_until_it_works, driver)
            beside.extend(await _round(members, errors, round_s))
            if driver.poll() is not None:
                raise spark_runs.RunFailed((folder / "driver.log").read_text(errors="replace")[-1500:])
        finally:
            driver.terminate()
            await asyncio.to_thread(driver.wait)
    for connection in connections:
        connection.close()
    for kind, latencies in (("no job", alone), ("a job runs", beside)):
        for percent in (50, 99):
            figures.add(kind, f"heartbeat p{percent}", 1000 * percentile(latencies, percent), "ms")
    figures.add("a job runs", "p99 over that without", percentile(beside, 99) / percentile(alone, 99), "")
    figures.add("both", "heartbeats", len(alone) + len(beside), "")
    figures.add("both", "errors", sum(errors.values()), "", 0)


def _until_it_works(driver: spark_runs.Driver) -> None:
    assert driver.stdout is not None
    for line in driver.stdout:
        if json.loads(line)["what"] == "begins":
            return


async def _round(members: list[Member], errors: Errors, seconds: float) -> array[float]:
    await asyncio.sleep(_SETTLE_S)
    heartbeats = Heartbeats(members, errors, interval_s=_INTERVAL_S)
    await asyncio.sleep(seconds)
    await heartbeats.stop()
    return heartbeats.latencies_s


if __name__ == "__main__":
    main()
