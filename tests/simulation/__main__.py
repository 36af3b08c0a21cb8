"""Look for a history that breaks an invariant, or show one.

python -m tests.simulation --seeds 1000 --first 0     every seed of a range; the exit status tells
python -m tests.simulation --seed 1234 [--steps N]    one of them; with --trace the whole history
python -m tests.simulation --processes ...            the same of copies of an offsets actor, ZooKeeper and a disk
python -m tests.simulation --transactions ...         the same of a transaction coordinator, producers and partitions
python -m tests.simulation --consumer-groups ...      the same of groups of KIP-848, beside and with classic ones
python -m tests.simulation --wal ...                  the same of writers of a write-ahead log in object storage
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.simulation.running import report, run, shorten
from tests.simulation.worlds import COORDINATOR, WORLDS

PROGRESS = 250
"""A line of progress every so many seeds."""


def main() -> int:
    arguments = _arguments()
    kind, steps = arguments.kind, arguments.steps or arguments.kind.steps
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    failures, counts = 0, Counter[str]()
    for seed in seeds:
        result = run(kind, seed, steps, trace_all=arguments.trace)
        counts.update(result.counts, events=result.steps)
        if result.broken is not None and arguments.seed is None:
            result = run(kind, seed, shorten(kind, seed, steps, result.broken.invariant), trace_all=arguments.trace)
        if result.broken is not None or arguments.trace:
            print(*result.history, sep="\n")
        if result.broken is not None:
            failures += 1
            print(f"\n{report(kind, seed, result)}\n", flush=True)
        done = seed - seeds.start + 1
        if done % PROGRESS == 0:
            print(f"{done} of {len(seeds)} seeds, {failures} failures", flush=True)
    total = kind.total.format_map(counts)
    print(f"{len(seeds)} seeds of {kind.name}, {total}, {counts['events']} events, {failures} failures")
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(kind=COORDINATOR)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, help="only this one")
    steps = ", ".join(f"{kind.steps} of {kind.name}" for kind in WORLDS)
    parser.add_argument("--steps", type=int, help=f"events before the faults stop (default: {steps})")
    worlds = parser.add_mutually_exclusive_group()
    for kind in WORLDS:
        if kind.option is not None:
            worlds.add_argument(f"--{kind.option}", dest="kind", action="store_const", const=kind, help=kind.about)
    parser.add_argument("--trace", action="store_true", help="print everything that happened, also without a failure")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
