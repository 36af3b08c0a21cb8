"""The simulation notices when the coordinator is broken: each mutant is caught by an invariant that says why."""

from __future__ import annotations

import pytest

from tests.simulation.planted.mutants import MUTANTS, Mutant
from tests.simulation.rules.invariants import INVARIANTS
from tests.simulation.run import run

SEEDS = 40
"""Within so many seeds a mutant must be caught."""


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulation_catches(mutant: Mutant) -> None:
    with mutant.loose():
        for seed in range(SEEDS):
            broken = run(seed).broken
            if broken is not None:
                assert broken.invariant in mutant.caught_by, str(broken)
                return
    pytest.fail(f"{mutant.name} survives {SEEDS} seeds: the simulation is too weak")


def test_expected_invariants_exist() -> None:
    names = {invariant.__name__ for invariant in INVARIANTS} | {"the_core_never_fails", "groups_get_well"}
    assert {name for mutant in MUTANTS for name in mutant.caught_by} <= names


def test_every_invariant_says_why() -> None:
    assert [invariant.__name__ for invariant in INVARIANTS if not invariant.__doc__] == []
