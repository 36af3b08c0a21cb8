"""One running Muster for all tests that need one; each uses topics and groups of its own.

``make test`` has two workers of pytest-xdist; a test alone needs none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.muster_process import Muster

_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in this hook, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares something dear runs in one worker of pytest-xdist: a Muster, a Spark, the nodes; else a module."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_shared(item) or item.nodeid.partition("::")[0]))


def _shared(item: pytest.Item) -> str | None:
    folder = item.path.parent.name
    is_there = {"cluster": "muster", "spark": "spark"}.get(folder) in getattr(item, "fixturenames", ())
    return folder if is_there or folder == "nodes" else None


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
