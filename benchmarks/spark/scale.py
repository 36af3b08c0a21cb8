"""``python -m benchmarks.spark.scale``: every job over many samples, with local Spark and through RayDP, in one run.

Makes the tables (:mod:`benchmarks.tables`) in a temporary directory, or keeps them for the next run (``--keep``,
``--data``). On either side, each job has a session of its own, as ``muster spark JOB`` has, with the same cores, the
same heap for the computation, and the same idle Muster beside it. The order of the sides alternates from job to job, so
other load of the machine affects both. Cheap jobs come first: a time budget omits the most expensive ones.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import pyarrow.parquet as pq

from benchmarks.cluster import Cluster, machine
from benchmarks.report import Figures, output_options, write_json
from benchmarks.spark import runs as spark_runs
from benchmarks.spark.runs import OutOfTime, Run, RunFailed
from benchmarks.spark.table import Pair, as_figures, markdown, print_pairs
from benchmarks.tables import make
from muster.actors.tables.compaction import Policy, compact
from muster.actors.tables.schemas.samples import SAMPLES
from muster.gateway.cli.times import Size
from muster.spark.jobs import JOBS

CACHE = Path(".cache/bench-tables")
"""Ignored by git."""
_READ_BYTES = 1 << 20
CHEAPEST_FIRST = ("failover", "rebalances", "placement", "lag", "consumption", "attribution")
_DAY_MS = 86_400_000
_ENDING_S = 15
"""Part of a budget that is reserved for the final steps."""
data_option = click.option(
    "--data", type=click.Path(path_type=Path), help="Tables to read; made there and kept if it is not there."
)
"""For :func:`tables_at`."""


@dataclass(slots=True)
class Plan:
    storage: Path
    cores: int
    memory_bytes: int
    end_ms: int
    deadline_s: float | None
    """On the clock of :func:`time.monotonic`."""
    pairs: list[Pair] = field(default_factory=list)

    def left_s(self) -> float | None:
        return None if self.deadline_s is None else self.deadline_s - time.monotonic()


@click.command()
@click.option("--samples", default=50.0, show_default=True, help="Rows of the table samples, in millions.")
@data_option
@click.option("--compacted", is_flag=True, help="Compact the tables first, which changes their files.")
@click.option("--keep", is_flag=True, help=f"The same as --data {CACHE}/SAMPLES.")
@click.option("--only", "jobs", multiple=True, type=click.Choice(tuple(JOBS)), help="Only this job; may be repeated.")
@click.option("--cores", default=2, show_default=True)
@click.option("--memory", type=Size(), default="4g", show_default=True, help="Heap of what computes.")
@click.option("--budget-minutes", type=float, help="Stop then with what there is, and say what was left out.")
@output_options
def main(
    samples: float,
    data: Path | None,
    compacted: bool,
    keep: bool,
    jobs: tuple[str, ...],
    cores: int,
    memory: int,
    budget_minutes: float | None,
    json_file: Path | None,
    as_markdown: bool,
) -> None:
    """Measure jobs at scale. Exit code 1 if a limit is missed or a job failed, 130 after Ctrl-C."""
    about, figures = machine(), Figures()
    deadline_s = None if budget_minutes is None else time.monotonic() + budget_minutes * 60
    with ended_in_order(), tempfile.TemporaryDirectory(prefix="muster-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        began_s = time.perf_counter()
        kept = CACHE / f"{samples:g}M{'-compacted' if compacted else ''}"
        storage = tables_at(data or (kept if keep else folder / "tables"), samples)
        if compacted:
            compact_all(storage, figures)
        _report_tables(storage, time.perf_counter() - began_s, figures)
        _read_once(storage)
        plan = Plan(storage, cores, memory, planted_end_ms(storage), deadline_s)
        interrupted = False
        try:
            _run(plan, folder, jobs or tuple(JOBS))
        except KeyboardInterrupt:
            interrupted = True
            _say("interrupted; this is what there is")
    as_figures(plan.pairs, figures)
    if as_markdown:
        click.echo(markdown(plan.pairs, figures, about))
    else:
        print_pairs(plan.pairs, figures, about)
    if json_file is not None:
        write_json(json_file, figures, about)
    if interrupted:
        sys.exit(128 + signal.SIGINT)
    sys.exit(0 if figures.met and not any(pair.failed for pair in plan.pairs) else 1)


def tables_at(folder: Path, samples: float) -> Path:
    """Return the tables in that folder, made there if they are missing; whole or not at all."""
    if (folder / "planted.json").exists():
        _say(f"reading {folder}")
        return folder
    _say(f"making {samples:g} million samples")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-", ignore_cleanup_errors=True) as name:
        make(Path(name) / "tables", int(samples * 1e6))
        (Path(name) / "tables").rename(folder)
    return folder


def compact_all(storage: Path, figures: Figures) -> None:
    """Merge and roll up all hours of the tables, without a delay; their superseded files are removed."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    at_ms = itertools.count(planted_end_ms(storage) + _DAY_MS)
    policy = Policy(delay_ms=0, grace_ms=0, retention_ms=None)
    for _ in range(2):  # the second time, what the first one replaced is removed
        outcome = compact(storage / "metrics", policy, lambda: next(at_ms))
        if outcome is None or outcome.problems:
            raise click.ClickException(f"the tables cannot be compacted: {outcome}")
    figures.add("tables", "compacted in", time.perf_counter() - began_s, "s")
    figures.add("tables", "the same, processor time", time.process_time() - began_cpu_s, "s")


def _report_tables(storage: Path, seconds: float, figures: Figures) -> None:
    rows, size_bytes = 0, 0
    for file in storage.rglob("*.parquet"):
        size_bytes += file.stat().st_size
        rows += pq.read_metadata(file).num_rows if file.is_relative_to(storage / "metrics" / SAMPLES) else 0
    figures.add("tables", "samples", rows, "rows")
    figures.add("tables", "on disk", size_bytes / 1e6, "MB")
    figures.add("tables", "made or found in", seconds, "s")


def planted_end_ms(storage: Path) -> int:
    """Return the end of the tables in ms since the epoch: "now" for the jobs."""
    end_ms: int = json.loads((storage / "planted.json").read_text())["end_ms"]
    return end_ms


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM work like Ctrl-C inside: processes are ended and temporary files are removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _read_once(storage: Path) -> None:
    """Read all files, or the first run alone would pay for the disk."""
    for file in storage.rglob("*.parquet"):
        with file.open("rb") as data:
            while data.read(_READ_BYTES):
                pass


def _run(plan: Plan, folder: Path, jobs: tuple[str, ...]) -> None:
    """Run both sides of each job; the results are in ``plan.pairs``."""
    plan.pairs = [Pair(job) for job in sorted(jobs, key=CHEAPEST_FIRST.index)]
    with Cluster(folder, gateways=1, properties={}) as cluster:  # idle during both sides
        for number, pair in enumerate(plan.pairs):
            sides = ("local", "RayDP") if number % 2 == 0 else ("RayDP", "local")
            for side in sides:
                _one(plan, pair, side, cluster if side == "RayDP" else None, folder / f"{pair.job}-{side}.log")


def _one(plan: Plan, pair: Pair, side: str, where: Cluster | None, log: Path) -> None:
    """Run the job there; the pair gets its cost, or the reason why there is none."""
    left_s = plan.left_s()
    if left_s is not None and left_s < _ENDING_S:
        pair.left_out[side] = "the budget is spent"
        return
    _say(f"{pair.job}: {side}")
    request = spark_runs.request_of(
        plan.storage, (pair.job,), where, cores=plan.cores, memory_bytes=plan.memory_bytes, end_ms=plan.end_ms
    )
    try:
        run = spark_runs.run(request, log, within_s=None if left_s is None else left_s - _ENDING_S)
        pair.runs[side] = run
        _say(_summary(pair.job, run))
    except OutOfTime as error:
        pair.left_out[side] = str(error)
    except RunFailed as error:
        pair.failed[side] = str(error)
        _say(f"{pair.job} failed: {error}")
    spark_runs.await_no_executors()


def _summary(job: str, run: Run) -> str:
    cost = run.jobs[job]
    return (
        f"  {cost.seconds:.1f} s after a start of {run.start_s:.1f} s, {cost.peak_bytes / 2**20:,.0f} MiB, "
        f"{cost.read_rows:,} rows, {cost.shuffle_bytes / 1e6:,.0f} MB shuffled, {cost.spilled_bytes / 1e6:,.0f} MB "
        f"spilled, tasks {cost.executor_ms / 1000:.1f} s, GC {cost.gc_ms / 1000:.1f} s"
    )


def _say(what: str) -> None:
    click.echo(f"bench: {what}", err=True)


if __name__ == "__main__":
    main()
