"""``python -m benchmarks.groups``: Muster with many groups, large groups and many offsets.

Starts a whole Muster with data in a temporary directory, uses Kafka's protocol over real sockets, and stops Muster.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
import tempfile
from pathlib import Path

import click

from benchmarks import loading, memory
from benchmarks.cluster import Cluster, machine
from benchmarks.large import large_group
from benchmarks.many import Scale, many_groups
from benchmarks.report import Figures, output, output_options

PARTS = ("loading", "memory", "many", "large")
_QUICK = Scale(groups=1_000, members=200, partitions=2, beat_s=6)
_OPEN_FILES = 8192
_COMPLAINTS = 20
"""Number of lines of Muster's logs to show when a measurement fails."""


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of everything: whether it works, not how fast it is.")
@click.option("--groups", default=10_000, show_default=True, help="Groups of one member.")
@click.option("--members", default=1_000, show_default=True, help="Members of the large group.")
@click.option("--offsets", default=100_000, show_default=True, help="Live offsets of the partition that is loaded.")
@click.option("--partitions", default=4, show_default=True, help="offsets.topic.num.partitions, an actor each.")
@click.option("--gateways", default=2, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="This part alone; may be repeated.")
@output_options
def main(
    quick: bool,
    groups: int,
    members: int,
    offsets: int,
    partitions: int,
    gateways: int,
    only: tuple[str, ...],
    json_file: Path | None,
    as_markdown: bool,
) -> None:
    """Measure groups at scale. Exit code 1 if a figure is above its limit."""
    scale = _QUICK if quick else Scale(groups=groups, members=members, partitions=partitions, beat_s=30)
    offsets = offsets // 10 if quick else offsets
    parts = only or PARTS
    about, figures = machine(), Figures()
    _allow_open_files()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end the child processes
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        if "loading" in parts:
            _say("loading")
            loading.loading(folder, offsets, figures)
        if "memory" in parts:
            _say("memory")
            memory.memory(scale, offsets, figures)
        if {"many", "large"} & set(parts):
            properties = {"offsets.topic.num.partitions": str(scale.partitions)}
            with Cluster(folder, gateways=gateways, properties=properties) as cluster:
                try:
                    asyncio.run(_over_sockets(cluster, scale, parts, figures))
                except Exception:
                    click.echo("\n".join(cluster.complaints()[-_COMPLAINTS:]), err=True)
                    raise
    output(figures, about, json_file, as_markdown)
    sys.exit(0 if figures.met else 1)


async def _over_sockets(cluster: Cluster, scale: Scale, parts: tuple[str, ...], figures: Figures) -> None:
    if "many" in parts:
        _say("many groups")
        await many_groups(cluster, scale, figures)
    if "large" in parts:
        _say("large group")
        await large_group(cluster, scale, figures)


def _allow_open_files() -> None:
    """Raise the limit: members of one group need a connection each. The gateways started from here inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _say(what: str) -> None:
    click.echo(f"bench: {what}", err=True)


if __name__ == "__main__":
    main()
