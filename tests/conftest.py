"""How tests are distributed: ``make test`` has three pytest-xdist workers, which wait a lot; a single test has none."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from muster.placement.hashing import partition_for
from tests.zookeeper_fixture import zk, zk_hosts, zookeeper

__all__ = ["zk", "zk_hosts", "zookeeper"]

_numbers = itertools.count(1)
settings.register_profile("muster", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("muster")  # a machine that is busy with other tests is slow


_SHARING = ("cluster", "nodes")
"""Folders whose tests share something slow to start: a Muster, several Ray nodes."""


_LONG = ("nodes", "cluster", "restart", "chaos", "cli", "spark")
"""Folders whose tests start first, so that no worker runs them alone at the end."""


def _folder(nodeid: str) -> str:
    """``cluster`` of tests/cluster/consumer_groups/test_group_admin.py."""
    return nodeid.removeprefix("tests/").partition("/")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the long tests to the front, in that order."""
    folders = dict(zip(_LONG, range(len(_LONG)), strict=True))
    items.sort(key=lambda item: folders.get(_folder(item.nodeid), len(folders)))


class _Scheduling(LoadScopeScheduling):
    """Tests that share a fixture run in one worker: those of a folder in ``_SHARING``, elsewhere those of a module."""

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(nodeid)
        return folder if folder in _SHARING else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Scheduling:
    config.option.loadscopereorder = False  # else modules with many tests come first, even short ones
    return _Scheduling(config, log)


_OFFSETS_PARTITIONS = 50
"""The default, which the tests' shared Muster uses."""
_COORDINATORS = (1, 2)
"""Each coordinator is a process that must start first, so all tests' groups go to these two."""


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """A name that no other test uses."""

    def name(kind: str) -> str:
        names = (f"{kind}-{number}" for number in _numbers)
        return next(name for name in names if partition_for(name, _OFFSETS_PARTITIONS) in _COORDINATORS)

    return name
