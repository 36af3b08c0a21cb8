"""``muster spark``: one of the jobs over the tables, on the cluster's own Ray or locally."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from muster.gateway.cli.spark.process import become_spark, spark_options

JOBS = ("consumption", "lag", "rebalances", "attribution", "placement", "failover")
"""Those of :mod:`muster.spark.jobs`, which the gateway's package does not import."""


@click.command(
    short_help="Answer a question about groups from the tables, with Spark.",
    epilog="Example: muster spark lag --from -1h --group billing --format json",
)
@click.argument("job", type=click.Choice(JOBS), metavar="JOB")
@spark_options
@click.option(
    "--format",
    "output",
    type=click.Choice(("table", "json", "parquet", "html")),
    help="parquet and html go to --out. Default: what the name at --out ends with (.json, .html), else table.",
)
@click.option("--out", type=click.Path(path_type=Path), help="File, or folder for parquet, instead of stdout.")
@click.option("--stream", is_flag=True, help="Go on with what the tables grow by; --out keeps how far it came.")
@click.option("--once", is_flag=True, help="With --stream: end when all that is there now is processed.")
def spark(job: str, output: str | None, out: Path | None, stream: bool, once: bool, **options: Any) -> None:
    """Run JOB over the tables that the cluster wrote, and show its answer.

    JOB is consumption (who was sent how much), lag (how far behind and for how long), rebalances (how often, why, what
    was lost), attribution (what has no group, and whose it was), placement (load of partitions, actors and nodes) or
    failover (time to recover).

    Executors are actors on the cluster's Ray, through RayDP, at a lower priority than those that serve.

    With --stream the answer is shown again whenever the tables have grown, until it is interrupted; nothing is kept.
    With --out, a folder, nothing is shown but at the end of --once; the folder keeps what was read and how far the
    stream came, so that the same one again goes on there, each row counted once.
    """
    output = output or _format_of(out, stream)
    if once and not stream:
        raise click.UsageError("--once ends a stream: give --stream, too.")
    if stream and output not in ("table", "json"):
        raise click.UsageError(f"a stream is shown as table or json, not as {output}; with --out it is kept as Parquet")
    if out is None and output in ("parquet", "html"):
        raise click.UsageError(f"--format {output} needs --out: say where to write.")
    become_spark(jobs=(job,), output=output, out=out, stream=stream, once=once, **options)


def _format_of(out: Path | None, stream: bool) -> str:
    """Where none is asked for. A stream's ``out`` is a folder, whatever its name is."""
    suffix = "" if out is None or stream else out.suffix
    return suffix.removeprefix(".") if suffix in (".json", ".html") else "table"
