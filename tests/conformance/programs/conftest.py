"""Base of the programs' checks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.conformance.programs.program import Outcome
from tests.conformance.summary import PROPERTY
from tests.marks import mark_folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(items, __file__, "programs")


@pytest.fixture
def outcome(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Outcome:
    """For the table at the end of the run: the result of a program on the server of this test."""
    server = request.node.callspec.params["bootstrap"]
    start = time.monotonic()

    def keep(program: str, result: str) -> None:
        seconds = round(time.monotonic() - start)
        record_property(PROPERTY, json.dumps([program, server, result, seconds]))

    return keep
