"""Any history of transactional ids from a seed, and coordinators that are broken on purpose."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.planted.mutants import Mutant
from tests.simulation.transactions.mutants import MUTANTS
from tests.simulation.transactions.run import replay_command, run

SEEDS = 60
PLANTED_SEEDS = 40
"""Within so many seeds a mutant must be caught."""
TALLY: Counter[str] = Counter()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_breaks(seed: int) -> None:
    result = run(seed)
    TALLY.update(result.events, seeds=1, committed=result.committed)
    if result.broken is not None:
        history = "\n".join(result.history)
        pytest.fail(f"{history}\n\n{result.broken}\n{replay_command(seed)}", pytrace=False)


def test_the_seeds_reach_what_matters() -> None:
    for seed in range(15 if TALLY["seeds"] < 15 else 0):
        result = run(seed)
        TALLY.update(result.events, seeds=1, committed=result.committed)
    seeds = TALLY["seeds"]
    assert TALLY["committed"] > 5 * seeds
    assert TALLY["TransactionCompleted"] > 10 * seeds
    rare = ("MarkerFailed", "PartitionLoaded", "TransactionFenced", "TransactionalIdsExpired")
    assert {name: TALLY[name] for name in rare if TALLY[name] < seeds / 10} == {}


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulation_catches(mutant: Mutant) -> None:
    with mutant.loose():
        for seed in range(PLANTED_SEEDS):
            broken = run(seed).broken
            if broken is not None:
                assert broken.invariant in mutant.caught_by, str(broken)
                return
    pytest.fail(f"{mutant.name} survives {PLANTED_SEEDS} seeds: the simulation is too weak")
