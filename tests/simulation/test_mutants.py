"""The simulations notice when the product is broken: each mutant is caught by an invariant that says why."""

from __future__ import annotations

import pytest

from tests.simulation.planted.planting import Mutant
from tests.simulation.rules.invariants import INVARIANTS
from tests.simulation.running import WorldKind, run
from tests.simulation.worlds import COORDINATOR, WORLDS

EVERY_MUTANT = [
    pytest.param(kind, mutant, id=f"{kind.name}-{mutant.name}") for kind in WORLDS for mutant in kind.mutants
]


@pytest.mark.ring(name="mutants")
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("kind", "mutant"), EVERY_MUTANT)
def test_the_simulation_catches(kind: WorldKind, mutant: Mutant) -> None:
    first = kind.mutants_begin.get(mutant.name, 0)
    with mutant.loose():
        for seed in range(first, first + kind.mutant_seeds):
            broken = run(kind, seed).broken
            if broken is not None:
                assert broken.invariant in mutant.caught_by, str(broken)
                return
    pytest.fail(f"{mutant.name} survives {kind.mutant_seeds} seeds: the simulation is too weak")


def test_mutants_have_different_names() -> None:
    """``mutants_begin`` names some of them."""
    for kind in WORLDS:
        names = [mutant.name for mutant in kind.mutants]
        assert len({*names}) == len(names)
        assert kind.mutants_begin.keys() <= {*names}


def test_expected_invariants_exist() -> None:
    names = {invariant.__name__ for invariant in INVARIANTS} | {"the_core_never_fails", "groups_get_well"}
    assert {name for mutant in COORDINATOR.mutants for name in mutant.caught_by} <= names


def test_every_invariant_says_why() -> None:
    assert [invariant.__name__ for invariant in INVARIANTS if not invariant.__doc__] == []
