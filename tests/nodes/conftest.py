"""One Muster on three Ray nodes for all tests of this folder; each test leaves three nodes running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.marks import mark_folder
from tests.nodes.bench import Bench, bench

_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "6",
    "log.actors": "3",
    "node.settle.ms": "2000",
    "fault.injection.enable": "true",
    "http.changes.enable": "true",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(items, __file__, "nodes")


@pytest.fixture(scope="package")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("nodes"), 3, _PROPERTIES) as running:
        assert running.until_settled()["controller"] == running.nodes.head.node_id  # at first; tests move it
        yield running


@pytest.fixture
def on_nodes(_running: Bench) -> Bench:
    """Each node has its share, also of a node that the test before has added, or lost when it failed."""
    _running.nodes.replace_lost()
    _running.until_placed()
    return _running
