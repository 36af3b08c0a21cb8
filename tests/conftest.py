"""One running Muster for all tests that need one; each uses topics and groups of its own.

``make test`` has two workers of pytest-xdist; a test alone needs none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.muster_process import Muster

_numbers = itertools.count(1)


# Folders whose tests share something dear that lives as long as the session.
_SHARED = ("cluster", "nodes", "spark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares a fixture runs in one worker of pytest-xdist: the folders of ``_SHARED``, elsewhere a module."""
    for item in items:
        folder = item.path.parent.name
        item.add_marker(pytest.mark.xdist_group(folder if folder in _SHARED else item.nodeid.partition("::")[0]))


@pytest.fixture(scope="session")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Two gateways, short rebalance delay so that groups settle fast; everything else as by default."""
    storage = tmp_path_factory.mktemp("muster") / "storage"
    properties = {
        "group.initial.rebalance.delay.ms": "300",
        "metrics.samples.flush.ms": "500",
        "reconciler.interval.ms": "1000",
        "fault.injection.enable": "true",
    }
    with Muster(storage, properties=properties) as running:
        yield running


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """A name that no other test uses."""
    return lambda kind: f"{kind}-{next(_numbers)}"
