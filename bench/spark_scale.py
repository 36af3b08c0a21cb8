"""``python -m bench.spark_scale``: every job over many samples, by local Spark and through RayDP, in one run.

Makes the tables (:mod:`bench.tables`) in a temporary directory, or takes those of ``--tables``. Both ways get the same
cores and the same heap for what computes. The session's start is a figure of its own.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import click

from bench import spark_runs
from bench.cluster import Cluster, machine
from bench.report import Figures, markdown, print_table, write_json
from bench.spark_runs import Run
from bench.tables import make
from gateway.cli.times import Size
from spark.jobs import JOBS

_DEAREST_RAYDP = 1.15
"""Of local Spark's time, both without their start."""
_READ_BYTES = 1 << 20


@click.command()
@click.option("--samples", default=50.0, show_default=True, help="Rows of the table samples, in millions.")
@click.option("--tables", type=click.Path(exists=True, path_type=Path), help="Of bench.tables, instead of new ones.")
@click.option("--job", "jobs", multiple=True, type=click.Choice(tuple(JOBS)), help="Only this one; may be repeated.")
@click.option("--cores", default=2, show_default=True)
@click.option("--memory", type=Size(), default="2g", show_default=True, help="Heap of what computes.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures there.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as docs/benchmarks.md has it.")
def main(
    samples: float,
    tables: Path | None,
    jobs: tuple[str, ...],
    cores: int,
    memory: int,
    json_file: Path | None,
    as_markdown: bool,
) -> None:
    """Measure jobs at scale. Exit code 1 if a figure is above its limit."""
    about, figures = machine(), Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        storage = tables or _made(folder / "tables", samples, figures)
        _read_once(storage)
        runs = _both(folder, storage, jobs or tuple(JOBS), cores, memory)
    for way, run in runs.items():
        _tell(way, run, figures)
    ratio = sum(runs["RayDP"].job_s.values()) / sum(runs["local"].job_s.values())
    figures.add("RayDP", "its jobs' time over local Spark's", ratio, "", _DEAREST_RAYDP)
    if as_markdown:
        click.echo(markdown(figures, about))
    else:
        print_table(figures, about)
    if json_file is not None:
        write_json(json_file, figures, about)
    sys.exit(0 if figures.met else 1)


def _made(folder: Path, samples: float, figures: Figures) -> Path:
    _say(f"making {samples:g} million samples")
    began_s = time.perf_counter()
    made = make(folder, int(samples * 1e6))
    figures.add("tables", "samples", made.samples, "rows")
    figures.add("tables", "all tables", made.size_bytes / 1e6, "MB")
    figures.add("tables", "made in", time.perf_counter() - began_s, "s")
    return folder


def _read_once(storage: Path) -> None:
    """So that the first way does not pay for the disk alone."""
    for file in storage.rglob("*.parquet"):
        with file.open("rb") as data:
            while data.read(_READ_BYTES):
                pass


def _both(folder: Path, storage: Path, jobs: tuple[str, ...], cores: int, memory_bytes: int) -> dict[str, Run]:
    planted = json.loads((storage / "planted.json").read_text())
    runs: dict[str, Run] = {}
    with Cluster(folder, gateways=1, properties={}) as cluster:  # idle beside both
        for way, where in (("local", None), ("RayDP", cluster)):
            _say(f"{', '.join(jobs)}: {way}")
            request = spark_runs.request_of(
                storage, jobs, where, cores=cores, memory_bytes=memory_bytes, end_ms=planted["end_ms"]
            )
            runs[way] = spark_runs.run(request, folder / f"{way}.log")
    return runs


def _tell(way: str, run: Run, figures: Figures) -> None:
    figures.add(way, "start of the session", run.start_s, "s")
    for job, seconds in run.job_s.items():
        figures.add(way, f"{job}: time", seconds, "s")
        figures.add(way, f"{job}: peak memory", run.peak_bytes[job] / 2**20, "MiB")
    figures.add(way, "end of the session", run.close_s, "s")


def _say(what: str) -> None:
    click.echo(f"bench: {what}", err=True)


if __name__ == "__main__":
    main()
