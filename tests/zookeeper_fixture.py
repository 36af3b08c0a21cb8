"""Fixtures for tests that need ZooKeeper: one embedded server for the session, a chroot of its own per test.

``tests/conftest.py`` imports them for all tests. A module that imported them too would have a server of its own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.zookeeper.client import ZooKeeperClient, connect

_numbers = itertools.count()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """Yield a running embedded ZooKeeper. Tests that stop a server start their own."""
    with EmbeddedZooKeeper.start(tmp_path_factory.mktemp("zookeeper"), timeout_s=100) as server:
        yield server


@pytest.fixture
def zk_hosts(zookeeper: EmbeddedZooKeeper) -> str:
    """Connect string with an empty chroot that no other test uses."""
    chroot = f"/test-{next(_numbers)}"
    root = connect(zookeeper.hosts, timeout_s=10)
    root.create(chroot)
    root.shut()
    return zookeeper.hosts + chroot


@pytest.fixture
def zk(zk_hosts: str) -> Iterator[ZooKeeperClient]:
    """Yield a client in the test's own chroot."""
    client = connect(zk_hosts, timeout_s=10)
    yield client
    client.shut()


def eventually(condition: Callable[[], Any], what: str, *, within_s: float = 20) -> Any:
    """Wait for the effect of another process or thread; returns the first true value."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if response := condition():
            return response
        time.sleep(0.01)
    raise AssertionError(f"not within {within_s} s: {what}")
