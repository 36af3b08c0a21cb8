"""Restarts of a whole Muster, and of its ZooKeeper."""

from __future__ import annotations

import pytest

from tests.marks import mark_folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(items, __file__, "restarts")
