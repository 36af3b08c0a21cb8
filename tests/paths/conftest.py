"""One Muster on two Ray nodes for all tests of this folder; each test leaves both nodes running, with their shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.actors.runtime.java import JavaNotFound
from tests.conformance.artifacts import Kafka, KafkaJs, ToolMissing, kafka, kafkajs
from tests.conformance.kafka import archive_classes
from tests.marks import mark_folder
from tests.muster_process import Muster
from tests.nodes.bench import Bench, bench
from tests.paths.names import COORDINATORS, fresh_name

_ORDER = (
    "test_kills",
    "test_move",
    "test_transactions",
    "test_librdkafka",
    "test_java",
    "test_kafkajs",
    "test_spark",
    "test_restart",
)
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": str(COORDINATORS),
    "transaction.state.log.num.partitions": str(COORDINATORS),
    "log.actors": "2",
    "node.settle.ms": "1000",
    "attribution.pending.ms": "3000",
    "metrics.samples.flush.ms": "500",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and put its modules in their order."""
    mark_folder(items, __file__, "first")
    places = [place for place, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    ordered = sorted((items[place] for place in places), key=lambda item: _ORDER.index(item.path.stem))
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


@pytest.fixture(scope="package")
def on_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Muster and the two nodes."""
    with bench(tmp_path_factory.mktemp("paths"), 2, _PROPERTIES) as running:
        yield running


@pytest.fixture(autouse=True)
def _placed(on_nodes: Bench) -> None:
    """Wait until each node has its share again."""
    on_nodes.until_placed()


@pytest.fixture
def muster(on_nodes: Bench) -> Muster:
    return on_nodes.muster


@pytest.fixture(scope="package")
def fresh() -> Callable[[str], str]:
    """Return a maker of names that no other test uses."""
    return fresh_name


@contextmanager
def _fails_without_tools() -> Iterator[None]:
    """Report a missing program by its name and remedy alone."""
    try:
        yield
        return
    except (ToolMissing, JavaNotFound) as error:
        remedy = str(error)
    pytest.fail(remedy, pytrace=False)


@pytest.fixture(scope="package")
def release() -> Kafka:
    """Apache Kafka's Java clients and tools."""
    with _fails_without_tools():
        fetched = kafka()
        archive_classes(fetched)
    return fetched


@pytest.fixture(scope="package")
def installed_kafkajs() -> KafkaJs:
    with _fails_without_tools():
        return kafkajs()
