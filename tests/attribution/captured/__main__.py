"""``python -m tests.attribution.captured``: what Muster counts for groups, against a packet capture. Needs root.

Real clients of one host, with their library's default client id, read from a whole Muster. A capture of the loopback
interface knows what each of their connections carried, and Fetch requests name the client: each has a ``client.rack``
of its own, which attribution does not use. Amounts are sums: a swap of equal amounts between two groups does not show.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import click

from tests.attribution.captured.comparison import print_rows
from tests.attribution.captured.run import run
from tests.attribution.captured.scenarios import SCENARIOS

_NAMES = [each.name for each in SCENARIOS]


@click.command()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([each.name for each in SCENARIOS]),
    help="This one alone; may be repeated.",
)
def main(only: tuple[str, ...]) -> None:
    """Exit code 1 if bytes were counted for a group that did not get them, or too few for any."""
    if os.geteuid() != 0:
        raise click.UsageError("a packet capture needs root")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end the child processes
    wanted = [each for each in SCENARIOS if not only or each.name in only]
    with tempfile.TemporaryDirectory(prefix="muster-captured-") as folder:
        rows = run(wanted, Path(folder), lambda text: click.echo(f"captured: {text}", err=True))
    print_rows(rows)
    sys.exit(1 if any(each.faults for each in rows) else 0)


if __name__ == "__main__":
    main()
