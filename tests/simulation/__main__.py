"""Look for a history that breaks an invariant, or show one.

python -m tests.simulation --seeds 1000 --first 0     every seed of a range; the exit status tells
python -m tests.simulation --seed 1234 [--steps N]    one of them; with --trace the whole history
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.run import STEPS, replay_command, run, shorten

PROGRESS = 250
"""A line of progress every so many seeds."""


def main() -> int:
    arguments = _arguments()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    failures = steps = core_steps = 0
    for seed in seeds:
        result = run(seed, arguments.steps, trace_all=arguments.trace)
        steps, core_steps = steps + result.steps, core_steps + result.core_steps
        if result.broken is not None and arguments.seed is None:
            result = run(seed, shorten(seed, arguments.steps, result.broken.invariant))
        if result.broken is not None or arguments.trace:
            print(*result.history, sep="\n")
        if result.broken is not None:
            failures += 1
            command = replay_command(seed, result.faulty_steps)
            print(f"\nseed {seed}, step {result.steps}: {result.broken}\n{command}\n", flush=True)
        done = seed - seeds.start + 1
        if done % PROGRESS == 0:
            print(f"{done} of {len(seeds)} seeds, {failures} failures", flush=True)
    print(f"{len(seeds)} seeds, {steps} events, {core_steps} steps of the coordinator, {failures} failures")
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"events before the faults stop (default: {STEPS})")
    parser.add_argument("--trace", action="store_true", help="print everything that happened, also without a failure")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
