"""Responses of Apache Kafka to :mod:`tests.gateway.authorization.cases`, in ``kafka_decisions.json``.

``python -m tests.conformance.authorization.record`` writes the file again; ``make ring-conformance`` checks that it is
true.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.gateway.authorization.cases import cases, play
from tests.gateway.authorization.world import World

FILE = Path(__file__).with_name("kafka_decisions.json")
Outcome = dict[str, Any]
"""Errors, messages and operations by the place in the response."""


def recorded() -> dict[str, Outcome]:
    """By case."""
    by_value: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text())
    return {
        case: {place: _value(value) for value, places in found.items() for place in places}
        for case, found in by_value.items()
    }


def record(found: Mapping[str, Outcome]) -> None:
    """Write the file: a line for each case, with the places by what is there."""
    lines = []
    for case, outcome in found.items():
        by_value: dict[str, list[str]] = {}
        for place, value in sorted(outcome.items()):
            by_value.setdefault(str(value), []).append(place)
        lines.append(f"{json.dumps(case)}: {json.dumps(by_value, sort_keys=True)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def played(world: World, served: Container[int] = range(128)) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of each case of an API that is served."""
    for case in cases():
        for version in case.versions if case.api_key in served else ():
            yield case.name(version), play(world, case, version)


def _value(text: str) -> Any:
    return int(text) if text.isdecimal() else text


def is_message(place: str) -> bool:
    """Whether an error message is there."""
    return place.endswith(" message")
