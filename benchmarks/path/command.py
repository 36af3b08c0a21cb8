"""``python -m benchmarks path``: the files, functions and calls of a steady request, and its time by stage."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import machine
from benchmarks.path import counts_file
from benchmarks.path.counting import Counter, Counts, count
from benchmarks.path.requests import REQUESTS, Request, Steps
from benchmarks.path.sampling import STAGES, Times, sample
from benchmarks.path.world import serving
from benchmarks.report import describe

T = TypeVar("T")
_NAMES = {request.name: request for request in REQUESTS}


def counted(requests: Sequence[Request] = REQUESTS) -> dict[str, Counts]:
    """Return the counts of each, in a world of its own."""
    counter = Counter()
    try:
        return {request.name: _in_a_world(request, lambda steps: count(steps, counter)) for request in requests}
    finally:
        counter.close()


def _timed(requests: Sequence[Request], seconds: float) -> dict[str, Times]:
    return {request.name: _in_a_world(request, lambda steps: sample(steps, seconds)) for request in requests}


def _in_a_world(request: Request, work: Callable[[Steps], Awaitable[T]]) -> T:
    async def run(folder: Path) -> T:
        async with serving(folder) as world:
            return await work(await request.prepare(world))

    with tempfile.TemporaryDirectory(prefix="muster-path-") as name:
        return uvloop.run(run(Path(name)))


@click.command(no_args_is_help=False)
@click.argument("names", metavar="[REQUEST]...", nargs=-1, type=click.Choice([*_NAMES]))
@click.option("--functions", is_flag=True, help="List the functions in the order in which they are entered.")
@click.option("--top", default=0, metavar="N", help="List the N functions called most often, libraries' included.")
@click.option("--dearest", default=0, metavar="N", help="List the N functions with most user time of their own.")
@click.option(
    "--seconds", default=2.0, show_default=True, help="Processor time of each request's second run; 0: counts only."
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as docs/benchmarks.md has it.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything there.")
@click.option("--write", is_flag=True, help="Count only, and write the file that tests compare with.")
@click.option(
    "--counts",
    "counts_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=counts_file.COUNTS,
    help="That file, if it is another one.",
)
def main(
    names: Sequence[str],
    functions: bool,
    top: int,
    dearest: int,
    seconds: float,
    as_markdown: bool,
    json_file: Path | None,
    write: bool,
    counts_path: Path,
) -> None:
    """Show what a steady request enters in gateway, actor and log, the calls made, and the time by stage.

    Counts are the same in every run; times are indications.
    """
    if write and names:
        raise click.UsageError("--write counts all requests")
    requests = [_NAMES[name] for name in names] or list(REQUESTS)
    about = machine()
    counts = counted(requests)
    times = _timed(requests, seconds) if seconds and not write else {}
    if write:
        counts_file.written(counts, counts_path)
    if as_markdown:
        click.echo("\n".join([describe(about), "", *_markdown(requests, counts, times)]))
    else:
        _print_table(describe(about), requests, counts, times)
    for request in requests:
        if functions:
            _list(request, counts[request.name])
        if top:
            _list_top(request, counts[request.name], top)
        if dearest and request.name in times:
            _list_dearest(request, times[request.name], dearest)
    if json_file is not None:
        json_file.write_text(json.dumps({"machine": about, "requests": _as_json(counts, times)}, indent=2))


_HEADINGS = ("files", "functions", "calls", "C calls")


def _cells(counts: Counts, times: Times | None) -> list[str]:
    per_request = (counts.python_calls / counts.requests, counts.c_calls / counts.requests)
    cells = [f"{len(counts.files)}", f"{len(counts.functions)}", *(f"{each:,.0f}" for each in per_request)]
    if times is not None:
        cells += [f"{times.stages[stage]:.0f}" for stage in STAGES]
        cells += [f"{times.user:.0f}", f"{times.kernel:.0f}"]
    return cells


def _headings(times: Mapping[str, Times]) -> list[str]:
    return [*_HEADINGS, *((*STAGES, "user", "kernel") if times else ())]


def _markdown(requests: Sequence[Request], counts: Mapping[str, Counts], times: Mapping[str, Times]) -> list[str]:
    headings = _headings(times)
    lines = [f"| request | {' | '.join(headings)} |", f"|---|{'--:|' * len(headings)}"]
    for request in requests:
        cells = _cells(counts[request.name], times.get(request.name))
        lines.append(f"| {request.title} | {' | '.join(cells)} |")
    return lines


def _print_table(
    title: str, requests: Sequence[Request], counts: Mapping[str, Counts], times: Mapping[str, Times]
) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("request")
    table.add_column("")
    for heading in _headings(times):
        table.add_column(heading, justify="right")
    for request in requests:
        table.add_row(request.name, request.title, *_cells(counts[request.name], times.get(request.name)))
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=180)).print(table)


def _list(request: Request, counts: Counts) -> None:
    click.echo(f"\n{request.title}:")
    for function in counts.functions:
        click.echo(f"{counts.calls[function] / counts.requests:8.4g}  {function.file}  {function.name}")


def _list_top(request: Request, counts: Counts, top: int) -> None:
    click.echo(f"\n{request.title}, called most often:")
    for function in sorted(counts.calls, key=lambda each: -counts.calls[each])[:top]:
        click.echo(f"{counts.calls[function] / counts.requests:8.4g}  {function.file}  {function.name}")


def _list_dearest(request: Request, times: Times, dearest: int) -> None:
    click.echo(f"\n{request.title}, us of user time and its share:")
    for function, us in list(times.functions.items())[:dearest]:
        click.echo(f"{us:8.4g} {us / times.user:5.0%}  {function.file}  {function.name}")


def _as_json(counts: Mapping[str, Counts], times: Mapping[str, Times]) -> dict[str, Any]:
    return {
        name: {
            "requests": each.requests,
            "files": len(each.files),
            "functions": len(each.functions),
            "calls": each.python_calls / each.requests,
            "c_calls": each.c_calls / each.requests,
            "calls_of": [[*function, calls / each.requests] for function, calls in each.calls.items()],
            "us": {**times[name].stages, "kernel": times[name].kernel} if name in times else None,
        }
        for name, each in counts.items()
    }
