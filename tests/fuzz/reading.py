"""``python -m tests.fuzz.reading --seed S --frames N``: hostile frames, each read by the codec and by kio.

No server is needed. It prints how many were read to the same, how many were refused by both, and how many differ for a
reason that is known (:class:`tests.wire.judge.Verdict`); at a difference that is not, it prints the frame and ends with
exit code 1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import chain, islice
from uuid import UUID

import click

from tests.fuzz.frames import Generator
from tests.fuzz.values import Extremes, Values
from tests.wire.judge import Difference, Verdict, judged_request

IDS = [UUID(int=1 << 100)]
_EXTREME = 10
"""One frame of so many has the least and the greatest numbers."""
_REPORT_S = 60.0


@click.command()
@click.option("--seed", default=1, show_default=True)
@click.option("--frames", default=1_000_000, show_default=True)
def main(seed: int, frames: int) -> None:
    """Compare the codec's reading of hostile frames with kio's."""
    usual, extreme = iter(Generator(seed, Values(IDS))), iter(Generator(seed, Extremes(IDS)))
    found: Counter[Verdict] = Counter()
    began_s = said_s = time.monotonic()
    while (done := found.total()) < frames:
        for frame in chain(islice(usual, _EXTREME - 1), islice(extreme, 1)):
            try:
                found[judged_request(frame.data)] += 1
            except Difference as error:
                click.echo(f"seed {seed}, after {found.total():,} frames: {error}")
                sys.exit(1)
        now_s = time.monotonic()
        if now_s - said_s > _REPORT_S:
            said_s = now_s
            click.echo(f"{done:,} frames, {done / (now_s - began_s):,.0f} per second", err=True)
    taken_s = time.monotonic() - began_s
    for verdict in Verdict:
        click.echo(f"{found[verdict]:>12,} {verdict.value}")
    click.echo(f"{found.total():>12,} frames in {taken_s:,.0f} s; none differs otherwise")


if __name__ == "__main__":
    main()
