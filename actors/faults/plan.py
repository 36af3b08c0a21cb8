"""A plan: timed faults from a YAML file, which is checked in full before the first step. Runs are reproducible.

::

    name: a coordinator that comes and goes
    seed: 17
    steps:
      - at: 2s
        name: lost-commits
        action: no-answer
        api: OffsetCommit
        phase: after
        when: {probability: 0.3}
      - at: 5s
        action: kill
        group: orders
      - at: 20s
        clear: lost-commits

``at`` counts from the start of the plan (``500ms``, ``2s``, ``1.5m``, or a number of seconds). A step is a fault, with
a ``name`` if a later step clears it, or ``clear: NAME`` or ``clear: all``. A probability without a seed gets one from
the plan's seed and the number of the step.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import yaml

from muster.actors.faults.errors import FaultError, InvalidFault, UnknownTarget
from muster.actors.faults.matching import drawn
from muster.actors.faults.model import FIELDS, Fault

ALL = "all"
_KEYS = ("name", "seed", "steps")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000}
_SEEDS = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; either ``fault`` or ``clear`` is set."""

    number: int
    """From 1, in the order of the file."""
    at_ms: int
    """From the start of the plan."""
    name: str | None = None
    fault: Fault | None = None
    clear: str | None = None
    """Name of an earlier step, or ``all``."""

    def to_json(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Return the step for a client that runs the plan: a fault with its seed, or the number of the step to clear.

        ``steps``: all steps of the plan.
        """
        entry = {"step": self.number, "at_ms": self.at_ms, "does": str(self)}
        if self.fault is not None:
            return {**entry, "fault": self.fault.to_json()}
        named = next((step.number for step in steps if step.name is not None and step.name == self.clear), ALL)
        return {**entry, "clear": named}

    def __str__(self) -> str:
        if self.fault is None:
            return f"clear {self.clear}"
        fields = self.fault.to_json()
        parts = [fields.pop("action")]
        parts += (f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in fields.items())
        return " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in the order of their times."""

    name: str
    seed: int
    steps: tuple[Step, ...]

    @classmethod
    def read(cls, path: Path | str) -> Plan:
        """Return the plan in a YAML file. Raises InvalidFault with all problems, or OSError."""
        return cls.from_text(Path(path).read_text(encoding="utf-8"))

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """Return the plan in a YAML text. Raises InvalidFault."""
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as a date that does not exist
            raise InvalidFault([f"this is no YAML: {' '.join(str(error).split())}"]) from error
        return cls.from_json(value)

    @classmethod
    def from_json(cls, value: Any) -> Plan:
        """Return the plan in a JSON object. Raises InvalidFault."""
        if not isinstance(value, Mapping):
            raise InvalidFault(["a plan has a name, a seed and steps"])
        problems = [
            f"{key} is no part of a plan{_near(str(key), _KEYS)}; there are {', '.join(_KEYS)}"
            for key in value
            if key not in _KEYS
        ]
        seed, items = value.get("seed", 0), value.get("steps")
        if type(seed) is not int:
            problems.append("seed has to be a whole number")
            seed = 0
        if not isinstance(items, Sequence) or isinstance(items, str) or not items:
            problems.append("steps has to be a list with at least one step")
            items = ()
        steps: list[Step] = []
        names = {name for item in items if isinstance(item, Mapping) and isinstance(name := item.get("name"), str)}
        for number, item in enumerate(items, 1):
            try:
                steps.append(_step(number, item, seed, names))
            except InvalidFault as error:
                problems += [f"step {number}: {problem}" for problem in error.problems]
        problems += _repeated(steps)
        if problems:
            raise InvalidFault(problems)
        return cls(
            name=str(value.get("name", "a plan")),
            seed=seed,
            steps=tuple(sorted(steps, key=lambda step: (step.at_ms, step.number))),
        )


def _step(number: int, item: Any, seed: int, names: set[Any]) -> Step:
    if not isinstance(item, Mapping):
        raise InvalidFault(["a step has at, and the fields of a fault or clear"])
    fields = dict(item)
    at_ms, name = _at_ms(fields.pop("at", None)), fields.pop("name", None)
    if name is not None and (not isinstance(name, str) or name == ALL or not name):
        raise InvalidFault([f"name has to be a text that is neither empty nor {ALL}"])
    if "clear" in fields:
        cleared = fields.pop("clear")
        if fields or name is not None:
            raise InvalidFault([f"clear stands alone, without {', '.join(map(str, fields)) or 'name'}"])
        if cleared != ALL and cleared not in names - {None}:
            known = [str(one) for one in names if one]
            raise InvalidFault([f"clear: no step is named {cleared!r}{_near(str(cleared), known)}"])
        return Step(number=number, at_ms=at_ms, clear=str(cleared))
    if unknown := [str(key) for key in fields if key not in FIELDS]:
        every = ("at", "name", "clear", *FIELDS)
        raise InvalidFault(
            f"{key} is no field of a step{_near(key, every)}; there are {', '.join(every)}" for key in unknown
        )
    when = fields.get("when")
    if isinstance(when, Mapping) and set(when) == {"probability"}:
        fields["when"] = {**when, "seed": drawn(seed, number) % _SEEDS}
    return Step(number=number, at_ms=at_ms, name=name, fault=Fault.from_json(fields))


def _at_ms(value: Any) -> int:
    if type(value) in (int, float) and value >= 0:
        value = f"{value}s"
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m)", value) if isinstance(value, str) else None
    if found is None:
        raise InvalidFault(["at has to be the time from the start of the plan, as 500ms, 2s or 1.5m"])
    return int(Decimal(found[1]) * _UNITS_MS[found[2]])


def _repeated(steps: Sequence[Step]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for step in steps:
        if step.name is not None and step.name in seen:
            yield f"step {step.number}: step {seen[step.name]} has the name {step.name} already"
        elif step.name is not None:
            seen[step.name] = step.number


def _near(value: str, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(value, known, n=1, cutoff=0.6)
    return f" (did you mean {nearest[0]}?)" if nearest else ""


class Run:
    """The state of a running plan: the fault that each step injected."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ids: dict[int, str] = {}

    @property
    def ids(self) -> list[str]:
        """Ids of the faults that were injected."""
        return list(self._ids.values())

    def injected(self, step: Step, fault_id: str) -> None:
        """Record the id with which the step's fault was injected."""
        self._ids[step.number] = fault_id

    def to_clear(self, step: Step) -> str | None:
        """Id of the fault that the step clears; None for all. Raises UnknownTarget if it was not injected."""
        if step.clear == ALL:
            return None
        for other in self._plan.steps:
            if other.name == step.clear and other.number in self._ids:
                return self._ids[other.number]
        raise UnknownTarget(f"{step.clear} cannot be cleared before it is injected")


class Injector(Protocol):
    """Injects faults into a cluster. Raises FaultError for whatever cannot be done."""

    def inject(self, fault: Fault) -> str:
        """Inject the fault. Returns its id."""

    def clear(self, fault_id: str | None = None) -> list[str]:
        """End the fault, or all faults. Returns the ids of those that ended.

        Raises UnknownTarget if there is no such id.
        """


def run(plan: Plan, injector: Injector, on_step: Callable[[Step, str], None]) -> None:
    """Run the steps of a plan at their times; returns after the last. ``on_step`` gets each step and its outcome.

    A step that is refused ends the plan with its FaultError. The faults that the plan injected are then cleared, as
    they are when it is interrupted. After a complete plan, they stay until they expire or are cleared.
    """
    running, started_s = Run(plan), time.monotonic()
    try:
        for step in plan.steps:
            time.sleep(max(0.0, started_s + step.at_ms / 1000 - time.monotonic()))
            on_step(step, _do(step, injector, running))
    except BaseException:
        _clear_those_that_are_left(injector, running)
        raise


def _do(step: Step, injector: Injector, running: Run) -> str:
    if step.fault is not None:
        fault_id = injector.inject(step.fault)
        running.injected(step, fault_id)
        return fault_id
    try:
        return "cleared " + (", ".join(injector.clear(running.to_clear(step))) or "nothing")
    except UnknownTarget:
        return "was over already"


def _clear_those_that_are_left(injector: Injector, running: Run) -> None:
    for fault_id in running.ids:
        try:
            injector.clear(fault_id)
        except FaultError:
            continue
