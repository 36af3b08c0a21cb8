"""Any history of consumer groups from a seed, and coordinators that are broken on purpose."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.consumer_groups.mutants import MUTANTS
from tests.simulation.consumer_groups.run import replay_command, run
from tests.simulation.planted.mutants import Mutant

SEEDS = 15
PLANTED_SEEDS = 40
"""Within so many seeds a mutant must be caught."""
REFUSED_CONVERSION = 927
"""The log refuses the records of a conversion while a member is joining."""
RARE = {"commits_of_former_members_are_taken": 14, "members_are_forgotten_though_their_removal_fails": 20}
"""The seed to begin with, of mutants that few histories reveal: it saves time."""
TALLY: Counter[str] = Counter()


@pytest.mark.parametrize("seed", [*range(SEEDS), REFUSED_CONVERSION])
def test_nothing_breaks(seed: int) -> None:
    result = run(seed)
    TALLY.update(result.events, seeds=1)
    if result.broken is not None:
        history = "\n".join(result.history)
        pytest.fail(f"{history}\n\n{result.broken}\n{replay_command(seed)}", pytrace=False)


def test_the_seeds_reach_what_matters() -> None:
    for seed in range(15 if TALLY["seeds"] < 15 else 0):
        TALLY.update(run(seed).events, seeds=1)
    seeds = TALLY["seeds"]
    assert TALLY["MemberReconciled"] > 20 * seeds
    assert TALLY["PartitionLoaded"] > seeds
    rare = ("GroupConverted", "GroupDeleted", "MemberExpired", "MemberLeft", "RebalanceStuck", "StaticMemberReplaced")
    assert {name: TALLY[name] for name in rare if TALLY[name] < seeds / 10} == {}


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulation_catches(mutant: Mutant) -> None:
    with mutant.loose():
        for seed in range(first := RARE.get(mutant.name, 0), first + PLANTED_SEEDS):
            broken = run(seed).broken
            if broken is not None:
                assert broken.invariant in mutant.caught_by, str(broken)
                return
    pytest.fail(f"{mutant.name} survives {PLANTED_SEEDS} seeds: the simulation is too weak")
