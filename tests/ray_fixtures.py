"""One Muster and one Ray for all tests of a folder; each test has topics and a group of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from muster.gateway.client.cluster import Cluster
from tests.muster_process import Muster
from tests.ray.pool.kit import Kit
from tests.ray_head import connected


@pytest.fixture(scope="package")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Two gateways; otherwise defaults, also the session timeout of 45 s, but for a short rebalance delay."""
    storage = tmp_path_factory.mktemp("muster") / "storage"
    with Muster(storage, properties={"group.initial.rebalance.delay.ms": "300"}) as running:
        yield running


@pytest.fixture(scope="package")
def on_ray() -> Iterator[None]:
    """Connect to a Ray of its own."""
    with connected():
        yield


@pytest.fixture
def kit(
    muster: Muster, on_ray: None, fresh: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kit]:
    """Make what a test of a pool needs, and stop its pools at its end."""
    made = Kit(Cluster(muster.bootstrap, (muster.http_url,)), fresh, tmp_path_factory.mktemp("pool"))
    yield made
    made.close()
