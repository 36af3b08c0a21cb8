"""One running Muster, with its own Ray, and one driver, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.gateway.client.cluster import Cluster
from tests.data.driver import Driver, environment
from tests.muster_process import Muster


@pytest.fixture(scope="package")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Two gateways, so that partitions have different leaders."""
    storage = tmp_path_factory.mktemp("muster") / "storage"
    properties = {"metrics.samples.flush.ms": "500", "fault.injection.enable": "true"}
    with Muster(storage, properties=properties) as running:
        yield running


@pytest.fixture(scope="package")
def driver(muster: Muster) -> Iterator[Driver]:
    with Driver(environment(muster), muster.storage.parent / "driver.log") as running:
        yield running


@pytest.fixture(scope="package")
def kafka(muster: Muster) -> Cluster:
    return Cluster(muster.bootstrap, (muster.http_url,))
