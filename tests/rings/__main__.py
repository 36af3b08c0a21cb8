"""``python -m tests.rings``: run rings, write the ledger, and judge a change as CI does."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from tests import stopwatch
from tests.rings import ledger
from tests.rings.checkout import Checkout
from tests.rings.judging import judge
from tests.rings.ledger import PASSED, Row
from tests.rings.ring import load
from tests.rings.running import DURATIONS, Runner, run_all

CI_S = 80 * 60
"""By then every ring has ended: CI is killed after 90 minutes."""
console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)


@click.group()
def rings() -> None:
    """Rings of checks (CONTRIBUTING.md, "How a change is judged")."""


@rings.command("ledger")
def show_ledger() -> None:
    """Print the last run of every ring; red: not passed in more than five changes."""
    console.print(ledger.table(load().values(), ledger.read()))


@rings.command()
@click.argument("names", nargs=-1, required=True, type=click.Choice([*load()]))
def run(names: tuple[str, ...]) -> None:
    """Run rings, and add a row for each to the ledger."""
    known = load()
    with _runner() as (runner, _):
        rows = [_record(runner.run(known[name])) for name in names]
    _finish(rows)


@rings.command()
def everything() -> None:
    """Run every ring, and add their rows to the ledger; those that need what not every machine reaches run by name."""
    found: list[Row] = []
    with _runner() as (runner, _):
        run_all(
            runner,
            [ring for ring in load().values() if not ring.is_by_name],
            lambda row, log: found.append(_record(_shown(row, log))),
        )
    _finish(found)


@rings.command()
@click.option("--began", type=float, default=None, help="Unix time at which the judging began; default: now.")
def ci(began: float | None) -> None:
    """Judge the commit: the first ring, those that are due as far as the time allows, and one more.

    Their rows are added to the ledger.
    """
    began_s = began or time.time()
    known, rows = load(), ledger.read()
    Console(width=140, force_terminal=True, color_system="standard").print(ledger.table(known.values(), rows))
    _say(f"set-up and lint took {time.time() - began_s:.0f} s")

    def shown(row: Row, log: Path, slowness: float) -> Row:
        _show_growth(rows, row, slowness)
        return _shown(row, log)

    with _runner(until_s=began_s + CI_S) as (runner, checkout):
        found = judge(known, rows, runner, checkout, began_s, _say, shown)
    for row in found:
        ledger.append(row)
    _finish(found)


@contextlib.contextmanager
def _runner(until_s: float | None = None) -> Iterator[tuple[Runner, Checkout]]:
    """Whatever ends this process ends the rings that it runs; a second signal kills them."""
    checkout = Checkout()
    commit = checkout.commit()
    if commit.endswith(ledger.DIRTY):
        _say(f"files differ from {commit.removesuffix(ledger.DIRTY)}: what passes here proves nothing of a commit")
    runner = Runner(checkout.commit, int(commit[:8], 16), until_s=until_s)

    def terminated(*_: object) -> None:
        if runner.is_ending:
            runner.kill()
        raise KeyboardInterrupt

    # SIGINT, too: a shell that starts a job in the background has it ignored, which the rings would inherit.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, terminated)
    try:
        yield runner, checkout
    finally:
        runner.end()


def _record(row: Row) -> Row:
    _show_growth(ledger.read(), row)
    ledger.append(row)
    return row


def _show_growth(rows: Sequence[Row], row: Row, slowness: float = 1.0) -> None:
    if sentence := ledger.growth(rows, row, slowness):
        console.print(sentence, style="red")


def _shown(row: Row, log: Path) -> Row:
    """Print what the ring printed, if it ran beside others: its end if it passed."""
    _say(f"{row.ring}: {row.result}, {row.tests} tests in {row.seconds} s ({log})")
    text = log.read_text(errors="replace") if log.exists() else ""
    print(_end_of(text) if row.result == PASSED else text, flush=True)
    return row


def _end_of(output: str) -> str:
    """From the summary of pytest on; the last lines of other programs."""
    found = re.search(r"^=+ the \d+ slowest", output, re.MULTILINE)
    return output[found.start() :] if found else "\n".join(output.splitlines()[-15:])


def _finish(rows: Sequence[Row]) -> None:
    """Print the slowest of several rings, and exit with 1 if one failed."""
    if len(rows) > 1:
        durations = [each for row in rows for each in stopwatch.read(DURATIONS / row.ring) if each.kind != "stage"]
        _say(f"the {stopwatch.SLOWEST} slowest of all; the others are in {DURATIONS}")
        print("\n".join(stopwatch.slowest(durations)))
    for row in rows:
        _say(f"{row.ring}: {row.result}, {row.tests} tests in {row.seconds} s")
    failed = sum(row.result != PASSED for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


def _say(text: str) -> None:
    console.print(f"== {text}", style="bold", markup=False, soft_wrap=True)


if __name__ == "__main__":
    rings(prog_name="python -m tests.rings")
