"""Any history from a seed: no invariant may break, and every group must recover in the end.

A failure prints the last steps and the command that replays the seed. More seeds: ``make simulate SEEDS=5000``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.run import STEPS, replay_command, run

SEEDS = 200
TALLY: Counter[str] = Counter()
"""What happened in the seeds of this session, by kind of event."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_breaks(seed: int) -> None:
    result = run(seed)
    TALLY.update(result.events, seeds=1, acknowledged=result.acknowledged, ended=result.ended_transactions)
    if result.broken is not None:
        history = "\n".join(result.history)
        pytest.fail(f"{history}\n\n{result.broken}\n{replay_command(seed)}", pytrace=False)


def test_the_seeds_reach_what_matters() -> None:
    """The simulation is worth its time only if groups become Stable, fail, shrink, expire and are deleted in it."""
    for seed in range(20 if TALLY["seeds"] < 20 else 0):
        result = run(seed)
        TALLY.update(result.events, seeds=1, acknowledged=result.acknowledged, ended=result.ended_transactions)
    seeds = TALLY["seeds"]
    assert TALLY["acknowledged"] > 50 * seeds
    assert TALLY["ended"] > 2 * seeds
    assert TALLY["AssignmentStored"] > 2 * seeds
    rare = (
        "GroupDeleted",
        "MemberExpired",
        "MemberLeft",
        "OffsetsDeleted",
        "OffsetsExpired",
        "PartitionLoaded",
        "StaticMemberReplaced",
    )
    assert {name: TALLY[name] for name in rare if TALLY[name] < seeds / 10} == {}


def test_a_seed_is_one_history() -> None:
    """The history is the same in another process, whose strings have different hashes."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", "3", "--steps", "400", "--trace"]
    traces = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) > 200


def test_a_failing_seed_is_printed_with_its_command() -> None:
    assert replay_command(17) == ".venv/bin/python -m tests.simulation --seed 17 --trace"
    assert replay_command(17, STEPS // 2).endswith(f"--seed 17 --steps {STEPS // 2} --trace")
