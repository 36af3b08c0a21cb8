"""One running Muster for all tests of this folder only; each test uses topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.muster_process import Muster


@pytest.fixture(scope="package")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Two gateways, a short rebalance delay so that groups settle fast; otherwise defaults."""
    storage = tmp_path_factory.mktemp("muster") / "storage"
    properties = {
        "group.initial.rebalance.delay.ms": "300",
        "metrics.samples.flush.ms": "500",
        "metrics.commits.flush.ms": "3000",
        "metrics.events.flush.ms": "3000",
        "metrics.compaction.delay.ms": "86400000",
        "metrics.compaction.grace.ms": "3000",
        "reconciler.interval.ms": "1000",
        "audit.interval.ms": "1000",
        "fault.injection.enable": "true",
    }
    with Muster(storage, properties=properties) as running:
        yield running
