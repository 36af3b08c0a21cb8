"""The examples of docs/testing-consumers.md, on the shared cluster of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.test_orders import (
    test_an_order_is_lost_by_committing_first,
    test_an_order_whose_commit_is_lost_is_shipped_twice,
    test_no_order_is_lost_by_committing_after,
    topic,
)
from pytest_muster.plugin import muster_faults
from tests.muster_process import Muster

__all__ = [
    "muster_faults",
    "test_an_order_is_lost_by_committing_first",
    "test_an_order_whose_commit_is_lost_is_shipped_twice",
    "test_no_order_is_lost_by_committing_after",
    "topic",
]

pytest_plugins = ["pytester"]


def test_the_first_test_of_the_page(muster: Muster, pytester: pytest.Pytester) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing-consumers.md").read_text()
    found = re.search(r"^Save this as test_first.py:\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    pytester.makepyfile(test_first=found[1])
    done = pytester.runpytest_subprocess(f"--muster-bootstrap={muster.bootstrap}", "test_first.py")
    done.assert_outcomes(passed=1)
