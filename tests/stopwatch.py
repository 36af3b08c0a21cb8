"""A pytest plugin that writes how long each test and each shared fixture took, and shows the slowest.

A run writes ``build/durations/last.csv``; in the folder that ``MUSTER_DURATIONS`` names, a file of its own. Columns:
kind (``test``, ``fixture`` or ``stage``), name, outcome, seconds. A fixture that several tests share has a row of its
own; its time is not part of the test that happened to need it first. Its teardown counts toward the last test that
used it.
"""

from __future__ import annotations

import csv
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, cast

import pytest

FOLDER_VARIABLE = "MUSTER_DURATIONS"
SLOWEST = 30
_FIXTURES = "stopwatch"
"""The property of a report that brings the fixtures' times from a worker of pytest-xdist."""
_COLUMNS = ("kind", "name", "outcome", "seconds")


@dataclass(frozen=True, slots=True)
class Duration:
    kind: str
    name: str
    outcome: str
    seconds: float


def read(folder: Path) -> list[Duration]:
    """All rows of the files in a folder."""
    rows = []
    for file in sorted(folder.glob("*.csv")):
        with file.open(newline="") as lines:
            rows += [
                Duration(each["kind"], each["name"], each["outcome"], float(each["seconds"]))
                for each in csv.DictReader(lines)
            ]
    return rows


def write(rows: Iterable[Duration], file: Path) -> None:
    """Replace the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(astuple(row) for row in rows)


def slowest(rows: Iterable[Duration], count: int = SLOWEST) -> list[str]:
    """Lines of text, the slowest first."""
    found = sorted(rows, key=lambda row: -row.seconds)[:count]
    return [f"{row.seconds:8.1f} s  {row.kind:7}  {row.name}" for row in found]


class Stopwatch:
    """Measures in every process; the one that has the reports of all tests writes the file."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_worker = hasattr(config, "workerinput")
        self._fixtures: list[tuple[str, float]] = []
        self._inner_s = 0.0
        """Time of shared fixtures that the fixture which is being set up has asked for."""
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._outcomes: dict[str, str] = {}
        self._shared: list[Duration] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        began_s, outer_s, self._inner_s = time.perf_counter(), self._inner_s, 0.0
        try:
            return (yield)
        finally:
            whole_s = time.perf_counter() - began_s
            if fixturedef.scope == "function":
                self._inner_s += outer_s
            else:
                place = fixturedef.baseid or "pytest"
                self._fixtures.append((f"{place}::{fixturedef.argname}", whole_s - self._inner_s))
                self._inner_s = outer_s + whole_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._fixtures:
            report.user_properties = [*report.user_properties, (_FIXTURES, self._fixtures)]
            self._fixtures = []
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._is_worker:
            return
        name = report.nodeid.rpartition("@")[0] if _has_group(report.nodeid) else report.nodeid
        shared: list[tuple[str, float]] = []
        for key, value in report.user_properties:
            if key == _FIXTURES:
                shared += cast("list[tuple[str, float]]", value)
        report.user_properties = [each for each in report.user_properties if each[0] != _FIXTURES]
        self._shared += [Duration("fixture", fixture, "", round(seconds, 3)) for fixture, seconds in shared]
        self._tests[name] += report.duration - sum(seconds for _, seconds in shared)
        if report.outcome != "passed" or report.when == "call":
            self._outcomes[name] = report.outcome

    def rows(self) -> list[Duration]:
        tests = [
            Duration("test", name, self._outcomes.get(name, ""), round(each, 3)) for name, each in self._tests.items()
        ]
        return [*tests, *self._shared]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        rows = self.rows()
        folder = os.environ.get(FOLDER_VARIABLE)
        file = Path(folder, f"pytest-{os.getpid()}.csv") if folder else Path("build/durations/last.csv")
        write(rows, terminalreporter.config.rootpath / file)
        if len(rows) > SLOWEST:
            terminalreporter.section(f"the {SLOWEST} slowest; all of them in {file}")
            terminalreporter.write_line("\n".join(slowest(rows)))


def _has_group(nodeid: str) -> bool:
    """Whether pytest-xdist has added ``@`` and the test's group."""
    return nodeid.rfind("@") > nodeid.rfind("]")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Stopwatch(config), "muster-stopwatch")
