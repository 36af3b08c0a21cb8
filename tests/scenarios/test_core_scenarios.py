"""Scenarios in a bare core: the whole transcript matches, and the log alone gives the same state."""

from pathlib import Path

import pytest

from tests.scenarios.core_world import CoreWorld
from tests.scenarios.language import load
from tests.scenarios.play import play
from tests.scenarios.suites import CORE, difference, paths


@pytest.mark.parametrize("path", paths(CORE), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = load(path)
    world = CoreWorld(scenario)
    played = play(scenario, world)
    if changed := difference(path.read_text(), played.text()):
        pytest.fail(f"{changed}\nor: python -m tests.scenarios update {path.stem}", pytrace=False)
    world.driver.write_all()
    assert world.driver.replayed() == world.driver.core.hard_state
