"""Scenarios: readable transcripts of requests to a group coordinator and its responses.

README.md in this folder describes the language. A scenario is played in a world (a bare core in virtual time, a
gateway, a real Kafka); the world's responses are inserted into the text, which must then equal the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scenarios.values import ScenarioError, read_fields

_REQUEST = re.compile(r"(?P<client>[\w-]+): (?P<api>[A-Z]\w+)(?: v(?P<version>\d+))?(?P<fields>(?: .*)?)$")
_COMMANDS = ("await", "parked", "sleep", "topic", "delete", "core", "log", "disconnect", "transactional", "exhaust")
RESPONSE, MUSTERS, BECAUSE = "   -> ", "   muster -> ", "   because "
_CONTINUED = "      "


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request. ``background``: a later step waits for the response."""

    client: str
    api: str
    version: int | None
    fields: dict[str, Any]
    background: bool


@dataclass(frozen=True, slots=True)
class Command:
    """Anything else: time passes, a step waits, the world changes."""

    name: str
    args: tuple[str, ...]


@dataclass(slots=True)
class Step:
    """A line of the scenario, and its result according to the file."""

    text: str
    action: Request | Command | None
    """None: a comment or an empty line."""
    response: str | None = None
    musters: str | None = None
    """Muster's response where it differs from ``response``, which is then Kafka's."""
    because: str | None = None


@dataclass(slots=True)
class Scenario:
    """A complete file."""

    name: str
    title: str
    broker: dict[str, str]
    """Properties that differ from the common ones of all scenarios' brokers."""
    steps: list[Step] = field(default_factory=list)

    @property
    def is_for_core_only(self) -> bool:
        """Whether it does something to the coordinator that no client can do."""
        return any(isinstance(step.action, Command) and step.action.name in ("core", "log") for step in self.steps)

    def text(self) -> str:
        """Return the file's text."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for step in self.steps:
            yield step.text
            for mark, said in ((RESPONSE, step.response), (MUSTERS, step.musters), (BECAUSE, step.because)):
                if said is not None:
                    first, *rest = said.split("\n")
                    yield f"{mark}{first}".rstrip()
                    yield from (f"{_CONTINUED}{line}" for line in rest)


def load(path: Path) -> Scenario:
    """Read a file. Raises ScenarioError, which names the invalid line."""
    scenario = Scenario(name=path.stem, title="", broker={})
    target = ""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            target = _add(scenario, line, target)
        except ScenarioError as error:
            raise ScenarioError(f"{path.name}, line {number}: {error}") from error
    if not scenario.title:
        raise ScenarioError(f"{path.name}: the first line is not # and a title")
    return scenario


def _add(scenario: Scenario, line: str, target: str) -> str:
    """Add a line; returns the part of the last step to which a continuation would belong."""
    for mark, name in ((RESPONSE, "response"), (MUSTERS, "musters"), (BECAUSE, "because")):
        if line.startswith(mark.rstrip()) and line[: len(mark)].rstrip() == mark.rstrip():
            setattr(scenario.steps[-1], name, line[len(mark) :])
            return name
    if line.startswith(_CONTINUED) and target:
        step = scenario.steps[-1]
        setattr(step, target, f"{getattr(step, target)}\n{line[len(_CONTINUED) :]}")
        return target
    if line.startswith("#") or not line.strip():
        scenario.title = scenario.title or line[1:].strip()
        scenario.steps.append(Step(line, None))
    elif line.startswith("broker "):
        scenario.broker.update(_property(item) for item in line.split()[1:])
        scenario.steps.append(Step(line, None))
    else:
        scenario.steps.append(Step(line, _action(line)))
    return ""


def _property(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise ScenarioError(f"{item} is no property=value")
    return name, value


def _action(line: str) -> Request | Command:
    if match := _REQUEST.match(line):
        fields, background = read_fields(match["fields"])
        version = None if match["version"] is None else int(match["version"])
        return Request(match["client"], match["api"], version, fields, background)
    name, *args = line.split()
    if name not in _COMMANDS:
        raise ScenarioError(f"neither a request nor one of {', '.join(_COMMANDS)}: {line}")
    return Command(name, tuple(args))
