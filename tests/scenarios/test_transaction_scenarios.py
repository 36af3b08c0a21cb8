"""Transactional ids in a bare core, compared with responses recorded from a real Apache Kafka."""

from pathlib import Path

import pytest

from tests.scenarios.language import load
from tests.scenarios.play import play
from tests.scenarios.suites import TRANSACTIONS, difference, paths
from tests.scenarios.transaction_world import TransactionWorld


@pytest.mark.parametrize("path", paths(TRANSACTIONS), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = load(path)
    world = TransactionWorld(scenario)
    if changed := difference(path.read_text(), play(scenario, world).text()):
        pytest.fail(changed, pytrace=False)
    assert world.driver.replayed() == world.driver.core.hard_state
