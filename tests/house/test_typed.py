"""mypy is strict for all code except a list of modules that may only become shorter."""

from __future__ import annotations

import tomllib
from typing import Any

from tests.house.test_layers import ROOT

MAX_MODULES_NOT_TYPED = 70


def not_typed() -> list[str]:
    mypy: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert mypy["strict"] is True
    (modules,) = [each["module"] for each in mypy["overrides"] if each.get("ignore_errors")]
    return list(modules)


def test_the_list_only_becomes_shorter() -> None:
    modules = not_typed()
    assert len(modules) <= MAX_MODULES_NOT_TYPED
    assert modules == sorted(set(modules))


def test_each_module_is_there_and_tests_or_shows_something() -> None:
    outside = {"test_plugin"}  # of pytest-muster, whose tests are in no package
    files = {name: ROOT / f"{name.replace('.', '/')}.py" for name in {*not_typed()} - outside}
    assert [name for name, file in files.items() if not file.exists()] == []
    assert {name.partition(".")[0] for name in files} <= {"tests", "examples"}
