"""The scenario files, and how a set of them is played concurrently."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from tests.scenarios.language import Scenario, load
from tests.scenarios.play import play
from tests.scenarios.pulse import Pulse
from tests.scenarios.socket_world import SocketWorld
from tests.scenarios.values import ScenarioError

CORE = Path(__file__).with_name("core")
"""Played in a bare core in virtual time; their responses are Muster's own."""
KAFKA = Path(__file__).with_name("kafka")
"""Played on sockets in real time; their responses were recorded from a real Apache Kafka."""
TRANSACTIONS = Path(__file__).with_name("transactions")
"""Transcripts like those of ``KAFKA``, of transactional ids.

They can also be played in a bare coordinator in virtual time.
"""
SIDE_BY_SIDE = 20
_LATE_S = 0.2
_AGAIN = 3

Played = Scenario | ScenarioError


def paths(folder: Path) -> list[Path]:
    """Every scenario of a folder, in order."""
    return sorted(folder.glob("*.scenario"))


def recorded() -> list[Path]:
    """Every scenario that was recorded from a real Apache Kafka, in order."""
    return [*paths(KAFKA), *paths(TRANSACTIONS)]


def soon_played() -> list[Path]:
    """Return the transcripts that need not send 32,766 requests to exhaust the epochs of a producer id."""
    return [path for path in recorded() if "\nexhaust " not in path.read_text()]


def by_broker(scenarios: Iterable[Scenario]) -> Iterator[tuple[dict[str, str], list[Scenario]]]:
    """Scenarios, grouped by their broker properties."""

    def properties(scenario: Scenario) -> list[tuple[str, str]]:
        return sorted(scenario.broker.items())

    for key, same in groupby(sorted(scenarios, key=properties), key=properties):
        yield dict(key), list(same)


def play_all(scenarios: Iterable[Scenario], port: int, *, as_kafka: bool) -> dict[str, Played]:
    """Play them concurrently on one server; return the results by name.

    They run in real time, with windows of half a second and more. If this process or the machine was suspended that
    long, a different result proves nothing: the scenario is played again, alone.
    """
    with SocketWorld(port) as world:
        world.prepare()

    def one(scenario: Scenario, time_played: int = 1) -> tuple[Played, float]:
        began_s = time.monotonic()
        try:
            with SocketWorld(port) as world:
                played: Played = play(scenario, world, as_kafka=as_kafka, time_played=time_played)
        except ScenarioError as error:
            played = error
        return played, pulse.late_s(since_s=began_s)

    results: dict[str, Played] = {}
    with Pulse() as pulse:
        listed = list(scenarios)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            found = list(pool.map(one, listed))
        for scenario, (played, late_s) in zip(listed, found, strict=True):
            for time_played in range(2, 2 + _AGAIN):
                if late_s < _LATE_S or _is_as_expected(scenario, played):
                    break
                played, late_s = one(scenario, time_played)
            results[scenario.name] = played
    return results


def _is_as_expected(scenario: Scenario, played: Played) -> bool:
    return not isinstance(played, ScenarioError) and played.text() == scenario.text()


def difference(expected: str, got: str) -> str:
    """Return the lines that differ, with context; "" if the texts are equal."""
    lines = difflib.unified_diff(expected.splitlines(), got.splitlines(), "the file", "played", lineterm="", n=4)
    return "\n".join(lines)


def differences() -> list[tuple[str, str, str]]:
    """Every accepted difference from Kafka: scenario, line, reason."""
    found = []
    for path in recorded():
        for step in load(path).steps:
            if step.musters is not None:
                found.append((path.stem, step.text, " ".join((step.because or "").split())))
    return found
