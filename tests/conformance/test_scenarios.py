"""The scenarios that were recorded from Kafka, on a running Muster; those that have changed since, on Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.scenarios import play_on_kafka
from tests.conformance.verified import unverified
from tests.muster_process import Muster
from tests.scenarios.core_world import BROKER
from tests.scenarios.language import Scenario, load
from tests.scenarios.suites import Played, by_broker, difference, play_all, soon_played
from tests.scenarios.values import ScenarioError

Play = Callable[[Scenario], Played]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Return a function that gives a scenario's result.

    All for the same kind of broker are played with the first of them.
    """
    results: dict[str, Played] = {}
    sets = list(by_broker(map(load, soon_played())))

    def give(scenario: Scenario) -> Played:
        if scenario.name not in results:
            same = next(group for properties, group in sets if properties == scenario.broker)
            properties = {**BROKER, **scenario.broker, "offsets.topic.num.partitions": "4"}
            folder = tmp_path_factory.mktemp("scenarios")
            with Muster(folder / "storage", ["--gateways", "1"], properties) as muster:
                port = int(muster.bootstrap.rpartition(":")[2])
                results.update(play_all(same, port, as_kafka=False))
        return results[scenario.name]

    return give


@pytest.mark.parametrize("path", soon_played(), ids=lambda path: path.stem)
def test_scenario(path: Path, played: Play) -> None:
    result = played(load(path))
    if isinstance(result, ScenarioError):
        pytest.fail(str(result), pytrace=False)
    if changed := difference(path.read_text(), result.text()):
        pytest.fail(changed, pytrace=False)


@pytest.mark.timeout(1800)
def test_a_transcript_is_what_kafka_responds() -> None:
    """New and changed transcripts are played; all if the modules that play them or Kafka's version have changed."""
    files = {path.stem: path for path in unverified()}
    wrong = {
        scenario.name: why
        for scenario, result in play_on_kafka([load(path) for path in files.values()])
        if (
            why := str(result)
            if isinstance(result, ScenarioError)
            else difference(files[scenario.name].read_text(), result.text())
        )
    }
    assert not wrong, "\n".join(f"{name}:\n{why}" for name, why in wrong.items())
