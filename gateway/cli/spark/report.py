"""``muster report``: the results of all jobs on one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from muster.gateway.cli.spark.process import become_spark, spark_options


@click.command(
    short_help="Write a page with tables and plots of the groups.",
    epilog="Example: muster report --out report.html --from -24h",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The HTML file to write.")
@spark_options
def report(out: Path, **options: Any) -> None:
    """Run every job of muster spark and write one page with the results and plots.

    The page is self-contained: it needs no network and no script, and follows the reader's light or dark setting.
    """
    become_spark(jobs=(), output="html", out=out, **options)
