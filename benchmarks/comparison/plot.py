"""``python -m benchmarks plot``: the ratios of one run, or of two, as a picture."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.comparison import plot_child
from benchmarks.comparison.environment import python_with

_MATPLOTLIB = "matplotlib==3.11.2"
_GOAL = re.compile(r"(at least|at most) ([\d.]+)x")


class Bar(NamedTuple):
    """Ratio to Kafka, larger if better: 2 is twice the rate, or half the time."""

    label: str
    value: float
    goal: float


def bars(run: dict[str, Any]) -> Iterator[Bar]:
    """Yield the figures of a run whose goal is relative to Kafka, in the order of the table."""
    for line in run["lines"]:
        goal = _GOAL.fullmatch(line["goal"])
        if goal is None or not line["ratio"]:
            continue
        label = f"{line['title']}: {line['figure'].replace('_', ' ')}"
        limit, ratio = float(goal[2]), line["ratio"]
        yield Bar(label, ratio, limit) if goal[1] == "at least" else Bar(label, 1 / ratio, 1 / limit)


def request_of(runs: Sequence[dict[str, Any]], output: Path) -> dict[str, Any]:
    """Return the request for :mod:`benchmarks.comparison.plot_child`. A bar that only an earlier run has is left
    out."""
    *earlier, last = [{bar.label: bar for bar in bars(run)} for run in runs]
    return {
        "output": str(output),
        "labels": [*last],
        "goals": [bar.goal for bar in last.values()],
        "runs": [[run[label].value if label in run else None for label in last] for run in (*earlier, last)],
    }


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The SVG to write.")
def plot(files: tuple[Path, ...], output: Path) -> None:
    """Draw the ratios of one file of ``kafka --json``, or of an earlier one and a later one."""
    if len(files) > 2:
        raise click.UsageError("one file, or an earlier and a later one")
    request = request_of([json.loads(file.read_text()) for file in files], output.absolute())
    command = [str(python_with(_MATPLOTLIB)), plot_child.__file__, json.dumps(request)]
    if subprocess.run(command, check=False).returncode != 0:
        raise click.ClickException("matplotlib failed, see above")
