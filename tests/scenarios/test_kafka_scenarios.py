"""Muster, over real sockets, compared with responses recorded from a real Apache Kafka."""

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.serving import serving
from tests.scenarios.core_world import BROKER
from tests.scenarios.language import Scenario, load
from tests.scenarios.suites import Played, by_broker, difference, differences, play_all, soon_played
from tests.scenarios.values import ScenarioError


@pytest.fixture(scope="module")
def results() -> dict[str, Played]:
    """Results of the scenarios played so far."""
    return {}


@pytest.fixture
def played(
    results: dict[str, Played], zk: ZooKeeperClient, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[Scenario], Scenario]:
    """Play a scenario, together with all others for the same kind of broker, unless they have been played."""
    selected = {item.callspec.params["path"] for item in request.session.items if _is_scenario(item)}  # type: ignore[attr-defined]

    def give(scenario: Scenario) -> Scenario:
        if scenario.name not in results:
            same = next(group for properties, group in by_broker(map(load, selected)) if properties == scenario.broker)
            with serving(zk, tmp_path, {**BROKER, **scenario.broker}, with_actors=True) as served:
                results.update(play_all(same, served.port, as_kafka=False))
        result = results[scenario.name]
        if isinstance(result, ScenarioError):
            pytest.fail(str(result), pytrace=False)
        return result

    return give


def _is_scenario(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.function is test_scenario


@pytest.mark.parametrize("path", soon_played(), ids=lambda path: path.stem)
def test_scenario(path: Path, played: Callable[[Scenario], Scenario]) -> None:
    if changed := difference(path.read_text(), played(load(path)).text()):
        pytest.fail(changed, pytrace=False)


def test_every_difference_has_its_reason() -> None:
    assert [name for name, _, reason in differences() if not reason] == []
