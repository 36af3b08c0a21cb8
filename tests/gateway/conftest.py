import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.gateway.serving import Serving, serving

__all__ = ["fresh", "full", "served"]

_numbers = itertools.count(1)


@pytest.fixture
def served(zk: ZooKeeperClient, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Serving]:
    """Yield a gateway; ``@pytest.mark.parametrize("served", [{property: value}], indirect=True)`` for properties."""
    with serving(zk, tmp_path, getattr(request, "param", {})) as running:
        yield running


@pytest.fixture(scope="module")
def full(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Serving]:
    """Yield a gateway with log actors and coordinators, one for the module.

    The module's PROPERTIES are set; a function gives them for a storage directory.
    """
    properties = getattr(request.module, "PROPERTIES", {})
    storage = tmp_path_factory.mktemp("storage")
    if callable(properties):
        properties = properties(storage)
    chroot = f"/{request.module.__name__}-{next(_numbers)}"
    root = connect(zookeeper.hosts, timeout_s=10)
    root.create(chroot)
    root.shut()
    client = connect(zookeeper.hosts + chroot, timeout_s=10)
    with serving(client, storage, properties, with_actors=True) as running:
        yield running
    client.shut()


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Return a maker of names that no other test uses."""
    return lambda kind: f"{kind}-{next(_numbers)}"
