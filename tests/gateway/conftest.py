from collections.abc import Iterator
from pathlib import Path

import pytest

from placement.zookeeper import ZooKeeperClient
from tests.gateway.serving import Serving, serving
from tests.zookeeper_fixture import zk, zk_hosts, zookeeper

__all__ = ["served", "zk", "zk_hosts", "zookeeper"]


@pytest.fixture
def served(zk: ZooKeeperClient, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Serving]:
    """A gateway; ``@pytest.mark.parametrize("served", [{property: value}], indirect=True)`` for properties."""
    with serving(zk, tmp_path, getattr(request, "param", {})) as running:
        yield running
