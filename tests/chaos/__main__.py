"""``python -m tests.chaos --seed S --minutes M``: real clients under random faults. ``... check DIR``: its journals
again. ``... batches --rounds N``: ``muster.data.batches`` while its processes are killed. ``... pool --rounds N``:
``muster.pool`` likewise.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import click

from tests.chaos import plan
from tests.chaos.checker import check
from tests.chaos.cluster import ROOT
from tests.chaos.history import read_history
from tests.chaos.report import report
from tests.chaos.run import Run


@click.group(invoke_without_command=True)
@click.option("--seed", default=1, show_default=True, help="Which plan.")
@click.option("--minutes", default=3.0, show_default=True, help="How long the load lasts, quiet times included.")
@click.option("--rate", default=50, show_default=True, help="Records per second and producer.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where journals and logs go, and stay.")
@click.option("--tree", type=click.Path(exists=True, file_okay=False, path_type=Path), default=ROOT, hidden=True)
@click.option("--bucket", is_flag=True, help="The cluster lives on a bucket, whose requests meet faults.")
@click.option("--show", is_flag=True, help="Print the plan and end.")
@click.pass_context
def main(
    context: click.Context,
    seed: int,
    minutes: float,
    rate: int,
    folder: Path | None,
    tree: Path,
    bucket: bool,
    show: bool,
) -> None:
    """Run the plan of a seed and check what came of it. Exit code 1 if a rule was violated."""
    if context.invoked_subcommand is not None:
        return
    wanted = plan.make(seed, minutes)
    if show:
        click.echo("\n".join(map(str, wanted.faults)))
        return
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end the child processes
    place = folder or Path(tempfile.mkdtemp(prefix="muster-chaos-"))
    place.mkdir(parents=True, exist_ok=True)
    Run(wanted, place, tree, rate, lambda text: click.echo(f"chaos: {text}", err=True), on_bucket=bucket).go()
    if not _report(place, minutes):
        click.echo(
            f"chaos: again: make chaos SEED={seed} MINUTES={minutes:g}; journals and logs are in {place};\n"
            f"chaos: check them once more: {sys.executable} -m tests.chaos check {place}"
        )
        sys.exit(1)
    if folder is None:
        shutil.rmtree(place)


@main.command("check")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
def check_again(directory: Path) -> None:
    """Check the journals of a run that is over."""
    sys.exit(0 if _report(directory, 0) else 1)


_seed = click.option("--seed", default=1, show_default=True, help="Which kills.")
_rounds = click.option("--rounds", default=20, show_default=True, help="How many of them.")
_folder = click.option("--folder", type=click.Path(path_type=Path), help="Where storage and logs go, and stay.")


@main.command("batches")
@_seed
@_rounds
@_folder
def run_batches(seed: int, rounds: int, folder: Path | None) -> None:
    """Copy a topic exactly once while drivers, workers and coordinators are killed. Exit code 1 if it is not."""
    from tests.chaos import batches

    _run("batches", batches.run, seed, rounds, folder)


@main.command("pool")
@_seed
@_rounds
@_folder
@click.option("--only", multiple=True, help="A kind of kill; may be repeated. All of them otherwise.")
def run_pool(seed: int, rounds: int, folder: Path | None, only: tuple[str, ...]) -> None:
    """Let a pool handle a topic at least once while its processes are killed. Exit code 1 if it does not."""
    from tests.chaos.pools import run

    if unknown := set(only) - run.KINDS.keys():
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: choose of {', '.join(run.KINDS)}", param_hint="--only")
    _run("pool", partial(run.run, kinds=only or tuple(run.KINDS)), seed, rounds, folder)


class _Outcome(Protocol):
    """The result of a plan."""

    @property
    def is_right(self) -> bool: ...


def _run(
    name: str,
    run: Callable[[int, int, Path, Callable[[str], None]], _Outcome],
    seed: int,
    rounds: int,
    folder: Path | None,
) -> None:
    """Run the plan and print what came of it. The folder is kept if a rule was violated."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # end the child processes
    place = folder or Path(tempfile.mkdtemp(prefix="muster-chaos-"))
    place.mkdir(parents=True, exist_ok=True)
    outcome = run(seed, rounds, place, lambda text: click.echo(f"chaos: {text}", err=True))
    click.echo(str(outcome))
    if not outcome.is_right:
        click.echo(f"chaos: again: make chaos PLAN={name} SEED={seed} ROUNDS={rounds}; logs are in {place}")
        sys.exit(1)
    if folder is None:
        shutil.rmtree(place)


def _report(folder: Path, minutes: float) -> bool:
    """Print the report; return whether no rule is violated."""
    history = read_history(folder / "journals")
    violations = check(history)
    click.echo(report(history, violations, minutes))
    return not violations


if __name__ == "__main__":
    main()
