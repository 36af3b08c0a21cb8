"""mypy is strict for all code; only libraries without types are excused, and nothing is left unchecked."""

from __future__ import annotations

import tomllib
from typing import Any

from tests.house.test_layers import ROOT

MYPY: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
CHECKED = {"muster", "examples", "benchmarks", "tests", "pytest-muster/src", "pytest-muster/tests"}
OUR_TESTS = "tests.*"
RELAXED = {
    "implicit_reexport": True,
    "disallow_untyped_calls": False,
    "disallow_subclassing_any": False,
    "strict_equality": False,
    "disable_error_code": ["misc"],
}
"""Freedoms of tests, which are no reason to leave one of them out."""


def test_all_code_is_checked_strictly() -> None:
    assert MYPY["strict"] is True
    assert set(MYPY["files"]) == CHECKED
    assert not {"exclude", "ignore_errors", "disable_error_code"} & MYPY.keys()


def test_no_module_of_ours_is_excused() -> None:
    excused = {name: each for each in MYPY["overrides"] for name in each["module"]}
    ours = {name for name in excused if name.partition(".")[0] in {*CHECKED, "test_plugin", "pytest_muster"}}
    assert ours == {OUR_TESTS}
    assert excused[OUR_TESTS] == {"module": [OUR_TESTS], **RELAXED}
    assert not [name for name, each in excused.items() if each.get("ignore_errors")]
