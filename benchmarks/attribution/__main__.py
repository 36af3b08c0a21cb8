"""``python -m benchmarks.attribution``: bytes attributed rightly, wrongly and not at all, by KoP's rule and by Muster.

For each case, raw consumers with addresses spread over 127.0.0.0/8 use a whole Muster. They know which group received
which bytes; the gateways' /metrics report what Muster counted; KoP's rule gets the same look-ups, fetches and closed
connections. Groups that could be confused receive different amounts, so a swap shows in the totals.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.attribution.cases import CASES, Case
from benchmarks.attribution.muster import Muster, running
from benchmarks.attribution.report import Result, markdown, print_results, write_json
from benchmarks.attribution.stage import FULL, QUICK, Scale, Stage
from benchmarks.cluster import machine
from tests.attribution.truth import compare, differences, largest_error

_FIRST_NETWORK = 10


async def measure(muster: Muster, cases: Sequence[Case], scale: Scale) -> list[Result]:
    """Run the cases that do not disturb others side by side, then the rest one by one."""
    await muster.world.leaders([])
    together = [case for case in cases if not case.is_alone]
    for batch in ([together] if together else []) + [[case] for case in cases if case.is_alone]:
        await asyncio.gather(*(_run(muster, case, scale) for case in batch))
    return [await _result(muster, case) for case in cases]


async def _run(muster: Muster, case: Case, scale: Scale) -> None:
    await case.run(Stage(muster, scale, f"{case.name}.", _FIRST_NETWORK + CASES.index(case)))
    click.echo(f"bench: {case.about}", err=True)


async def _result(muster: Muster, case: Case) -> Result:
    prefix = f"{case.name}."
    books, received = await muster.settled_books(prefix), muster.world.truth.of(prefix)
    apart = {place: size for place, size in muster.world.truth.apart.items() if place[0].startswith(prefix)}
    evidence: Counter[str] = Counter()
    for (name, _), size_bytes in books.evidence.items():
        evidence[name] += size_bytes
    return Result(
        case=case,
        kop=compare(received, muster.world.kop_books.of(prefix)),
        ours=compare(received, books),
        evidence=dict(evidence),
        differences=differences(received, books),
        beyond_positions=max((largest_error(received, books, at) - size for at, size in apart.items()), default=0),
    )


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice([case.name for case in CASES]), help="This case alone; may be repeated."
)
@click.option("--quick", is_flag=True, help="Fewer clients and bytes, shorter waits: whether it works.")
@click.option(
    "--outage", "outage_s", type=float, help="How long ZooKeeper is unavailable, in seconds. Default: 60; quick: 8."
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures there.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as docs/benchmarks.md has it.")
def main(only: tuple[str, ...], quick: bool, outage_s: float | None, json_file: Path | None, as_markdown: bool) -> None:
    """Measure which bytes are attributed rightly. Exit code 1 if a case does not hold."""
    about, scale = machine(), QUICK if quick else FULL
    if outage_s is not None:
        scale = replace(scale, outage_s=outage_s)
    cases = [case for case in CASES if not only or case.name in only]
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end the child processes
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as name,
        running(Path(name), scale.pending_s) as muster,
    ):
        results = asyncio.run(measure(muster, cases, scale))
    if as_markdown:
        click.echo(markdown(results, about))
    else:
        print_results(results, about)
    if json_file is not None:
        write_json(json_file, results, about)
    sys.exit(1 if any(result.faults for result in results) else 0)


if __name__ == "__main__":
    main()
