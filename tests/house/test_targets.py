"""Exactly one target of the Makefile runs each test, by its marks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.house.test_layers import ROOT

_OTHER_MARKS = {"cluster", "on_kafka"}
"""They select no target."""


class _Marks:
    def __init__(self, marks: set[str]) -> None:
        self._marks = marks

    def __call__(self, name: str, /, **_: object) -> bool:
        return name in self._marks


_TARGET = re.compile(r"^([\w-]+): setup\n\t\$\(PYTEST\).* -m (?:\"([^\"]+)\"|(\w+))(.*)$", re.MULTILINE)
"""Its name, the argument of ``pytest -m``, and the rest of the line."""


def targets() -> dict[str, Expression]:
    """The arguments of ``pytest -m``, by target."""
    found = _TARGET.findall((ROOT / "Makefile").read_text())
    return {name: Expression.compile(quoted or word) for name, quoted, word, _ in found}


def test_every_mark_chooses_one_target(pytestconfig: pytest.Config) -> None:
    known = {line.partition(":")[0] for line in pytestconfig.getini("markers") if "make " in line}
    assert len(known) == 8
    for marks in (set(), *({mark} for mark in known), {"spark", "spark_apart"}, {"recovery", "launched"}):
        chosen = [name for name, chooses in targets().items() if chooses.evaluate(_Marks(marks))]
        assert len(chosen) == 1, (marks, chosen)


def folders() -> dict[str, list[Path]]:
    """What pytest collects, by target, if that is not everything."""
    made = {}
    for name, _, _, rest in _TARGET.findall((ROOT / "Makefile").read_text()):
        added = re.search(r"\$\(addprefix tests/,([^)]*)\)", rest)
        words = [f"tests/{word}" for word in added[1].split()] if added else re.findall(r"tests/\S+", rest)
        if words:
            made[name] = [ROOT / word for word in words]
    return made


def test_targets_collect_the_files_of_their_marks() -> None:
    collected = folders()
    assert collected.keys() == targets().keys() - {"test"}
    for path in (ROOT / "tests").rglob("*.py"):
        for mark in re.findall(r"pytest\.mark\.(\w+)|mark_folder\(items, __file__, \"(\w+)\"\)", path.read_text()):
            (target,) = (name for name, chooses in targets().items() if chooses.evaluate(_Marks({*mark})))
            whole = path.parent if path.name == "conftest.py" else path
            assert target == "test" or any(whole.is_relative_to(folder) for folder in collected[target]), (target, path)


def test_ci_runs_every_target() -> None:
    calls = re.findall(
        r"^(?:\w+=\S+ |setsid nice -n \d+ )?make ([^#&\n]+)", (ROOT / ".ci/run").read_text(), re.MULTILINE
    )
    run = [word for words in calls for word in words.split() if not word.startswith("-")]
    assert sorted(run) == sorted({"setup", "lint", "dependencies", *targets()})


def test_functions_that_test_are_in_files_that_are_collected() -> None:
    """pytest collects ``test_*.py`` below ``tests``. Tests there run the examples and pytest-muster."""
    run_by_others = (ROOT / "examples", ROOT / "pytest-muster")
    files = [
        path for path in ROOT.rglob("*.py") if not path.relative_to(ROOT).parts[0].startswith((".", "muster", "dist"))
    ]
    wrong = [
        str(path.relative_to(ROOT))
        for path in files
        if not any(path.is_relative_to(folder) for folder in run_by_others)
        and has_tests(path)
        and not (path.is_relative_to(ROOT / "tests") and path.name.startswith("test_"))
    ]
    assert not wrong


def has_tests(path: Path) -> bool:
    functions = (
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return any(function.name.startswith("test_") for function in functions)
