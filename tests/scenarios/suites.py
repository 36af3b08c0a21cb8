"""The scenario files, and how a whole set of them is played at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from tests.scenarios.language import Scenario, load
from tests.scenarios.play import play
from tests.scenarios.socket_world import SocketWorld
from tests.scenarios.values import ScenarioError

CORE = Path(__file__).with_name("core")
"""Played in a bare core in virtual time; their answers are Muster's own."""
KAFKA = Path(__file__).with_name("kafka")
"""Played on sockets in real time; their answers were recorded from a real Apache Kafka."""
SIDE_BY_SIDE = 20

Played = Scenario | ScenarioError


def paths(folder: Path) -> list[Path]:
    """Every scenario of a folder, in order."""
    return sorted(folder.glob("*.scenario"))


def by_broker(scenarios: Iterable[Scenario]) -> Iterator[tuple[dict[str, str], list[Scenario]]]:
    """Scenarios together with those that want the same broker properties."""

    def properties(scenario: Scenario) -> list[tuple[str, str]]:
        return sorted(scenario.broker.items())

    for key, same in groupby(sorted(scenarios, key=properties), key=properties):
        yield dict(key), list(same)


def play_all(scenarios: Iterable[Scenario], port: int, *, as_kafka: bool) -> dict[str, Played]:
    """Play them side by side on one server; by name, what came of each."""
    with SocketWorld(port) as world:
        world.prepare()

    def one(scenario: Scenario) -> Played:
        try:
            with SocketWorld(port) as world:
                return play(scenario, world, as_kafka=as_kafka)
        except ScenarioError as error:
            return error

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        listed = list(scenarios)
        return dict(zip((each.name for each in listed), pool.map(one, listed), strict=True))


def difference(expected: str, got: str) -> str:
    """The lines that differ, with what is around them; "" if the texts are equal."""
    lines = difflib.unified_diff(expected.splitlines(), got.splitlines(), "the file", "played", lineterm="", n=4)
    return "\n".join(lines)


def differences() -> list[tuple[str, str, str]]:
    """Every accepted difference from Kafka: scenario, line, reason."""
    found = []
    for path in paths(KAFKA):
        for step in load(path).steps:
            if step.musters is not None:
                found.append((path.stem, step.text, " ".join((step.because or "").split())))
    return found
