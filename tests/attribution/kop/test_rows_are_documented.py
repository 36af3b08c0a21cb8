"""docs/attribution.md names a test for each of F1 to F33, and all these tests exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "attribution.md"


def test_the_table_names_the_tests_that_there_are() -> None:
    documented = set(re.findall(r"`(test_f\d\d_\w+)`", PAGE.read_text()))
    there = {name for file in HERE.glob("test_*.py") for name in re.findall(r"def (test_f\d\d_\w+)", file.read_text())}
    assert documented == there
    assert {name[5:8] for name in documented} == {f"f{row:02}" for row in range(1, 34)}


def test_each_test_is_in_its_row() -> None:
    rows = dict(re.findall(r"^\| F(\d+) \|.*\| (.*) \|$", PAGE.read_text(), re.MULTILINE))
    assert {row: {int(name) for name in re.findall(r"test_f(\d\d)_", tests)} for row, tests in rows.items()} == {
        str(row): {row} for row in range(1, 34)
    }
