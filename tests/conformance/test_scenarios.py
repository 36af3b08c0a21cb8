"""The scenarios that were recorded from Kafka, on a real Apache Kafka and on a running Muster: the same responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.artifacts import Kafka
from tests.conformance.kafka import KafkaBroker
from tests.muster_process import Muster
from tests.scenarios.core_world import BROKER
from tests.scenarios.language import Scenario, load
from tests.scenarios.suites import Played, by_broker, difference, play_all, soon_played
from tests.scenarios.values import ScenarioError

Play = Callable[[Scenario], Played]


@contextmanager
def _port(server: str, properties: dict[str, str], release: Kafka, folder: Path) -> Iterator[int]:
    properties = {**BROKER, **properties, "offsets.topic.num.partitions": "4"}
    if server == "kafka":
        with KafkaBroker(properties, release=release) as broker:
            yield int(broker.bootstrap_servers.rpartition(":")[2])
    else:
        with Muster(folder / "storage", ["--gateways", "1"], properties) as muster:
            yield int(muster.bootstrap.rpartition(":")[2])


@pytest.fixture(scope="module", params=["kafka", "muster"])
def played(request: pytest.FixtureRequest, release: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """The result of a scenario; all scenarios for the same kind of broker are played with the first of them."""
    results: dict[str, Played] = {}
    sets = list(by_broker(map(load, soon_played())))

    def give(scenario: Scenario) -> Played:
        if scenario.name not in results:
            same = next(group for properties, group in sets if properties == scenario.broker)
            with _port(request.param, scenario.broker, release, tmp_path_factory.mktemp("scenarios")) as port:
                results.update(play_all(same, port, as_kafka=request.param == "kafka"))
        return results[scenario.name]

    return give


@pytest.mark.parametrize("path", soon_played(), ids=lambda path: path.stem)
def test_scenario(path: Path, played: Play) -> None:
    result = played(load(path))
    if isinstance(result, ScenarioError):
        pytest.fail(str(result), pytrace=False)
    if changed := difference(path.read_text(), result.text()):
        pytest.fail(changed, pytrace=False)
