"""How tests are distributed, and what all of them use.

``make test`` has four workers of pytest-xdist, which wait a lot; a single test has none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from muster.placement.hashing import partition_for
from tests.marks import ring_of
from tests.zookeeper_fixture import zk, zk_hosts, zookeeper

__all__ = ["zk", "zk_hosts", "zookeeper"]

pytest_plugins = ("tests.stopwatch",)

_numbers = itertools.count(1)
settings.register_profile("muster", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("muster")  # a machine that is busy with other tests is slow


_SHARING = ("cluster", "data", "nodes", "paths", "ray")
"""Folders whose tests share something slow to start: a Muster, several Ray nodes."""


_LONG = ("paths", "nodes", "cluster", "data", "ray", "restart", "chaos", "cli", "spark")
"""Folders whose tests start first, so that no worker runs them alone at the end."""


def _folder(nodeid: str) -> str:
    """``cluster`` of tests/cluster/consumer_groups/test_group_admin.py."""
    return nodeid.removeprefix("tests/").partition("/")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the long tests to the front, in that order; tests that share a fixture run in one worker.

    These are the tests of a folder in ``_SHARING``, elsewhere those of a module.
    """
    folders = dict(zip(_LONG, range(len(_LONG)), strict=True))
    items.sort(key=lambda item: folders.get(_folder(item.nodeid), len(folders)))
    for item in items:
        ring_of(item)  # refuses two
        folder = _folder(item.nodeid)
        item.add_marker(pytest.mark.xdist_group(folder if folder in _SHARING else item.nodeid.partition("::")[0]))


_MAX_ID = 100


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the names of long values: one is a frame of a megabyte."""
    if not isinstance(val, str | bytes) or len(val) <= _MAX_ID:
        return None
    begin = val[:20].hex() if isinstance(val, bytes) else val[:20].encode("unicode_escape").decode()
    return f"{begin}-and-{len(val) - 20}-more"


_OFFSETS_PARTITIONS = 50
"""The default, which the tests' shared Muster uses."""
_COORDINATORS = (1, 2)
"""Each coordinator is a process that must start first, so all tests' groups go to these two."""


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Return a maker of names that no other test uses."""

    def name(kind: str) -> str:
        names = (f"{kind}-{number}" for number in _numbers)
        return next(name for name in names if partition_for(name, _OFFSETS_PARTITIONS) in _COORDINATORS)

    return name
