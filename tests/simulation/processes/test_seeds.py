"""Copies of an offsets actor in any history from a seed: acknowledged data is kept, and everything recovers in the end.

A failure prints the last steps and the command that replays the seed. More seeds: ``make simulate SEEDS=5000``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.processes.run import STEPS, Result, replay_command, run

SEEDS = 12
TALLY: Counter[str] = Counter()
"""What happened in the seeds of this session, by kind."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_breaks(seed: int) -> None:
    result = _counted(seed)
    if result.broken is not None:
        history = "\n".join(result.history)
        pytest.fail(f"{history}\n\n{result.broken}\n{replay_command(seed)}", pytrace=False)


def test_the_seeds_reach_what_matters() -> None:
    """The simulation is worth its time only if copies are fenced and sessions expire while clients commit and fetch."""
    for seed in range(5 if TALLY["seeds"] < 5 else 0):
        _counted(seed)
    seeds = TALLY["seeds"]
    assert TALLY["acknowledged"] > 50 * seeds
    assert TALLY["fetched"] > 50 * seeds
    assert TALLY["opened"] > 4 * seeds
    assert TALLY["refused by the log"] > seeds
    assert TALLY["sessions expired"] > seeds


def test_a_seed_is_one_history() -> None:
    """The history is the same in another process, whose strings have different hashes."""
    command = [sys.executable, "-m", "tests.simulation", "--processes", "--seed", "3", "--steps", "4000", "--trace"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    here = run(3, 4_000, trace_all=True).history
    assert there[:-1] == [*here]
    assert len(here) > 200


def test_a_failing_seed_is_printed_with_its_command() -> None:
    assert replay_command(17) == ".venv/bin/python -m tests.simulation --processes --seed 17 --trace"
    assert replay_command(17, STEPS // 2).endswith(f"--seed 17 --steps {STEPS // 2} --trace")


def _counted(seed: int) -> Result:
    result = run(seed)
    TALLY.update(result.counts)
    TALLY["seeds"] += 1
    return result
