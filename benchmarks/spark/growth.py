"""``python -m benchmarks.spark.growth``: the growth of each job's time with the tables, with local Spark in this
process.

Runs all jobs over the tables of :mod:`benchmarks.tables`, with few samples and with ten times as many. A job whose time
grows by more than its rows does something that is not linear. Each job also has a fixed part, which reduces its growth.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks.cluster import machine
from benchmarks.report import Figures, print_table
from benchmarks.tables import make
from muster.gateway.cli.times import Size
from muster.spark.command import session_for
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Options
from muster.spark.request import Request


@click.command()
@click.option("--samples", default=0.2, show_default=True, help="Rows of the smaller table samples, in millions.")
@click.option("--times", default=10, show_default=True, help="How many times as many the larger one has.")
@click.option("--job", "names", multiple=True, type=click.Choice(tuple(JOBS)), help="Only this one. May be repeated.")
@click.option("--cores", default=2, show_default=True)
@click.option("--memory", type=Size(), default="2g", show_default=True, help="Heap.")
def main(samples: float, times: int, names: tuple[str, ...], cores: int, memory: int) -> None:
    """Measure jobs over two sizes of tables. Exit code 1 if one grows faster than its rows."""
    about, figures = machine(), Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        small, large = (
            _measured(Path(folder) / f"{millions:g}", millions, names or tuple(JOBS), cores, memory, figures)
            for millions in (samples, samples * times)
        )
    for job, seconds in small.items():
        figures.add("growth", f"{job}: time over time", large[job] / seconds, "", times)
    print_table(figures, about)
    sys.exit(0 if figures.met else 1)


def _measured(
    storage: Path, millions: float, names: tuple[str, ...], cores: int, memory: int, figures: Figures
) -> dict[str, float]:
    """Return the seconds of each job."""
    made, part = make(storage, int(millions * 1e6)), f"{millions:g} M"
    figures.add(part, "samples", made.samples, "rows")
    now = datetime.fromtimestamp(made.planted.end_ms / 1000, UTC)
    options = Options(now=now, price_per_gib=0.05)
    request = Request(storage=storage, jobs=names, options=options, executor_cores=cores, executor_memory_bytes=memory)
    seconds = {}
    with session_for(request, [JOBS[name] for name in names]) as session:
        from muster.spark.result import run_job

        for name in names:
            click.echo(f"bench: {part} samples, {name}", err=True)
            began_s = time.perf_counter()
            run_job(JOBS[name], session, storage, options)
            seconds[name] = time.perf_counter() - began_s
            session.catalog.clearCache()
            figures.add(part, f"{name}: time", seconds[name], "s")
    return seconds


if __name__ == "__main__":
    main()
