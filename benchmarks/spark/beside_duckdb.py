"""``python -m benchmarks.spark.beside_duckdb``: ``consumption`` by local Spark and by DuckDB, same tables, same cores.

DuckDB is no dependency of Muster: it is installed into an environment of its own, in ``.cache/duckdb``, on first use.
Both read the same storage directory, one after the other. ``--compacted`` first merges and rolls up the tables there,
as the reconciler does; Spark then reads roll-ups, and DuckDB the merged files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import click

from benchmarks.cluster import machine
from benchmarks.report import Figures, output, output_options
from benchmarks.spark import duckdb_child
from benchmarks.spark import runs as spark_runs
from benchmarks.spark.runs import RunFailed
from benchmarks.spark.scale import CACHE, compact_all, data_option, ended_in_order, planted_end_ms, tables_at
from muster.actors.tables.reading import files
from muster.actors.tables.schemas.samples import SAMPLES
from muster.gateway.cli.times import Size
from muster.spark.jobs.job import Options
from muster.spark.result import MAX_ROWS

JOB = "consumption"
MAX_RATIO = 5.0
"""Largest ratio of local Spark's time, without the start of its session, to DuckDB's."""
_DUCKDB = "duckdb==2.0.0"
_ENVIRONMENT = Path(__file__).parents[2] / ".cache/duckdb"
"""Ignored by git."""


@click.command()
@click.option("--samples", default=50.0, show_default=True, help="Rows of the table samples, in millions.")
@data_option
@click.option("--compacted", is_flag=True, help="Compact these tables first, which changes their files.")
@click.option("--cores", default=2, show_default=True)
@click.option("--memory", type=Size(), default="4g", show_default=True, help="Heap of Spark, limit of DuckDB.")
@output_options
def main(
    samples: float,
    data: Path | None,
    compacted: bool,
    cores: int,
    memory: int,
    json_file: Path | None,
    as_markdown: bool,
) -> None:
    """Compare consumption with DuckDB. Exit code 1 if the limit is missed or the results differ in size."""
    about, figures = machine(), Figures()
    with ended_in_order(), tempfile.TemporaryDirectory(prefix="muster-bench-", ignore_cleanup_errors=True) as name:
        storage = tables_at(data or CACHE / f"{samples:g}M{'-compacted' if compacted else ''}", samples)
        if compacted:
            compact_all(storage, figures)
        duckdb = _in_duckdb(storage, Path(name), cores=cores, memory_bytes=memory)
        request = spark_runs.request_of(
            storage, (JOB,), None, cores=cores, memory_bytes=memory, end_ms=planted_end_ms(storage)
        )
        run = spark_runs.run(request, Path(name) / "spark.log", low_priority=False)  # as DuckDB
    cost = run.jobs[JOB]
    figures.add("DuckDB", f"time, {duckdb['version']}", duckdb["seconds"], "s")
    figures.add("DuckDB", "processor time", duckdb["cpu_s"], "s")
    figures.add("Spark", "start of the session", run.start_s, "s")
    figures.add("Spark", "time", cost.seconds, "s")
    figures.add("Spark", "tasks", cost.executor_ms / 1000, "s")
    figures.add("Spark", "rows read", cost.read_rows, "")
    figures.add("both", "Spark's time over DuckDB's", cost.seconds / duckdb["seconds"], "", MAX_RATIO)
    output(figures, about, json_file, as_markdown)
    rows = sum(duckdb["rows"].values())
    if rows != cost.answered_rows:
        click.echo(f"bench: DuckDB has {rows} rows, Spark {cost.answered_rows}", err=True)
    sys.exit(0 if figures.met and rows == cost.answered_rows else 1)


def _in_duckdb(storage: Path, spill: Path, *, cores: int, memory_bytes: int) -> dict[str, Any]:
    """Return the output of :mod:`benchmarks.spark.duckdb_child`. Raises RunFailed."""
    request = {
        "files": [str(path.absolute()) for path in files(storage, SAMPLES)],
        "cores": cores,
        "memory_bytes": memory_bytes,
        "spill": str(spill),
        "top": Options().top,
        "most": MAX_ROWS,
    }
    child = [str(_python()), duckdb_child.__file__, json.dumps(request)]
    done = subprocess.run(child, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(done.stderr[-1500:])
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _python() -> Path:
    """Return a Python with DuckDB; pip installs it on first use. Raises CalledProcessError."""
    installed, python = _ENVIRONMENT / _DUCKDB, _ENVIRONMENT / "bin/python"
    if not installed.exists():
        venv.create(_ENVIRONMENT, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", _DUCKDB], stdout=sys.stderr, check=True)
        installed.touch()
    return python


if __name__ == "__main__":
    main()
