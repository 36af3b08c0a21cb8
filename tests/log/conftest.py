"""Tests that run on both storages of a log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.log.either import BUCKETS, Buckets


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with ``either_storage`` on both, except those marked ``in_directory``, which look at its files."""
    if "either_storage" in metafunc.fixturenames:
        in_directory = metafunc.definition.get_closest_marker("in_directory") is not None
        storages = ["directory"] if in_directory else ["directory", "bucket"]
        metafunc.parametrize("either_storage", storages, indirect=True)


@pytest.fixture
def either_storage(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make ``open_log`` open logs in that storage."""
    if request.param == "bucket":
        BUCKETS.append(Buckets())
    yield
    for buckets in BUCKETS:
        buckets.release()
    BUCKETS.clear()
