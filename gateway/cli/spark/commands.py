"""``muster spark``: runs one of the jobs over the tables, on the cluster's own Ray or locally."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from muster.gateway.analytics.runs import JOBS
from muster.gateway.cli.spark.process import become_spark, spark_options


@click.command(
    short_help="Analyse groups from the tables, with Spark.",
    epilog="Example: muster spark lag --from -1h --group billing --format json",
)
@click.argument("job", type=click.Choice(JOBS), metavar="JOB")
@spark_options
@click.option(
    "--format",
    "output",
    type=click.Choice(("table", "json", "parquet", "html")),
    help="Format; parquet and html need --out. Default: by the suffix of --out (.json, .html), else table.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: --format json.")
@click.option("--details", is_flag=True, help="Show all tables of the job, in the columns that fit the terminal.")
@click.option("--wide", is_flag=True, help="Show all tables of the job, with all columns.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write; a folder for parquet. Default: stdout.")
@click.option("--stream", is_flag=True, help="Keep processing new rows; --out stores the progress.")
@click.option("--once", is_flag=True, help="With --stream: stop when all current rows are processed.")
def spark(
    job: str,
    output: str | None,
    as_json: bool,
    details: bool,
    wide: bool,
    out: Path | None,
    stream: bool,
    once: bool,
    **options: Any,
) -> None:
    """Run JOB over the tables that the cluster has written, and show the result.

    JOB is consumption (bytes sent to each group), lag (of groups, in messages and seconds), rebalances (number, causes
    and cost), attribution (bytes without a group, and their likely owners), placement (load of partitions, actors and
    nodes) or failover (time to recover).

    A terminal shows the answer and a line for each group or actor, the worst first; a pipe gets all tables.

    Executors are actors on the cluster's Ray, through RayDP, at a lower priority than the serving actors.

    With --stream the result is shown again whenever the tables have grown, until interrupted; nothing is stored. With
    --out, a folder stores the result and the progress of the stream: the next run of the command continues there, and
    counts each row once. The result is then shown only at the end of --once.
    """
    if as_json and output not in (None, "json"):
        raise click.UsageError(f"--json excludes --format {output}.")
    output = "json" if as_json else output or _format_of(out, stream)
    if details and wide:
        raise click.UsageError("--wide includes --details: name one of them.")
    if (details or wide) and (output != "table" or out is not None):
        where = "--out" if output == "table" else f"--format {output}"
        raise click.UsageError(
            f"{where} has all tables and columns: --{'wide' if wide else 'details'} is for a terminal."
        )
    if once and not stream:
        raise click.UsageError("--once needs --stream.")
    if stream and output not in ("table", "json"):
        raise click.UsageError(
            f"a stream can be shown as table or json, not as {output}; with --out it is written as Parquet"
        )
    if out is None and output in ("parquet", "html"):
        raise click.UsageError(f"--format {output} needs --out: the file or folder to write.")
    extent = "wide" if wide else "details" if details else ""
    become_spark(jobs=(job,), output=output, extent=extent, out=out, stream=stream, once=once, **options)


def _format_of(out: Path | None, stream: bool) -> str:
    """Return the default format. A stream's ``out`` is a folder, whatever its name."""
    suffix = "" if out is None or stream else out.suffix
    return suffix.removeprefix(".") if suffix in (".json", ".html") else "table"
