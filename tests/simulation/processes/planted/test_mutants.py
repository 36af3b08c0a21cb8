"""The simulation of processes detects broken ones: each mutant is caught by what it breaks."""

from __future__ import annotations

import pytest

from tests.simulation.planted.mutants import Mutant
from tests.simulation.processes.planted.mutants import MUTANTS
from tests.simulation.processes.run import run

SEEDS = 60
"""A mutant must be caught within this number of seeds. The rarest are by one in fifteen or twenty."""


@pytest.mark.mutants
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulation_catches(mutant: Mutant) -> None:
    with mutant.loose():
        for seed in range(SEEDS):
            broken = run(seed).broken
            if broken is not None:
                assert broken.invariant in mutant.caught_by, str(broken)
                return
    pytest.fail(f"{mutant.name} survives {SEEDS} seeds: the simulation is too weak")
