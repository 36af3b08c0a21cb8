"""Look for a history that breaks an invariant, or show one.

python -m tests.simulation --seeds 1000 --first 0     every seed of a range; the exit status tells
python -m tests.simulation --seed 1234 [--steps N]    one of them; with --trace the whole history
python -m tests.simulation --processes ...            the same of copies of an offsets actor, ZooKeeper and a disk
python -m tests.simulation --transactions ...         the same of a transaction coordinator, producers and partitions
python -m tests.simulation --consumer-groups ...      the same of groups of KIP-848, beside and with classic ones
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from tests.simulation.consumer_groups import run as consumer_groups
from tests.simulation.processes import run as processes
from tests.simulation.run import STEPS, replay_command, run, shorten
from tests.simulation.transactions import run as transactions

PROGRESS = 250
"""A line of progress every so many seeds."""


def main() -> int:
    arguments = _arguments()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    if arguments.transactions:
        return _search(arguments, seeds, transactions, "transactions, {} known commits", lambda each: each.committed)
    if arguments.processes:
        of = "processes, {} acknowledged commits"
        return _search(arguments, seeds, processes, of, lambda each: each.counts["acknowledged"])
    if arguments.consumer_groups:
        of = "consumer groups, {} steps of the coordinator"
        return _search(arguments, seeds, consumer_groups, of, lambda each: each.core_steps)
    return _coordinator(arguments, seeds)


def _coordinator(arguments: argparse.Namespace, seeds: range) -> int:
    failures = steps = core_steps = 0
    steps = arguments.steps or STEPS
    for seed in seeds:
        result = run(seed, steps, trace_all=arguments.trace)
        steps, core_steps = steps + result.steps, core_steps + result.core_steps
        if result.broken is not None and arguments.seed is None:
            result = run(seed, shorten(seed, steps, result.broken.invariant))
        if result.broken is not None or arguments.trace:
            print(*result.history, sep="\n")
        if result.broken is not None:
            failures += 1
            command = replay_command(seed, result.faulty_steps)
            print(f"\nseed {seed}, step {result.steps}: {result.broken}\n{command}\n", flush=True)
        _show_progress(seed, seeds, failures)
    print(f"{len(seeds)} seeds, {steps} events, {core_steps} steps of the coordinator, {failures} failures")
    return 1 if failures else 0


def _search(arguments: argparse.Namespace, seeds: range, module: Any, of: str, counted: Callable[[Any], int]) -> int:
    """The seeds of another world: ``module`` runs them, and ``counted`` is what a result adds to the last line."""
    failures = steps = count = 0
    faulty_steps = arguments.steps or module.STEPS
    for seed in seeds:
        result = module.run(seed, faulty_steps, trace_all=arguments.trace)
        steps, count = steps + result.steps, count + counted(result)
        if result.broken is not None or arguments.trace:
            print(*result.history, sep="\n")
        if result.broken is not None:
            failures += 1
            command = module.replay_command(seed, faulty_steps)
            print(f"\nseed {seed}, step {result.steps}: {result.broken}\n{command}\n", flush=True)
        _show_progress(seed, seeds, failures)
    print(f"{len(seeds)} seeds of {of.format(count)}, {steps} events, {failures} failures")
    return 1 if failures else 0


def _show_progress(seed: int, seeds: range, failures: int) -> None:
    done = seed - seeds.start + 1
    if done % PROGRESS == 0:
        print(f"{done} of {len(seeds)} seeds, {failures} failures", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, help="only this one")
    steps = f"events before the faults stop (default: {STEPS}, of processes {processes.STEPS}, "
    steps += f"of transactions {transactions.STEPS}, of consumer groups {consumer_groups.STEPS})"
    parser.add_argument("--steps", type=int, help=steps)
    parser.add_argument("--processes", action="store_true", help="copies of an actor instead of the core")
    parser.add_argument("--transactions", action="store_true", help="a transaction coordinator instead")
    parser.add_argument("--consumer-groups", action="store_true", help="groups of KIP-848 instead")
    parser.add_argument("--trace", action="store_true", help="print everything that happened, also without a failure")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
