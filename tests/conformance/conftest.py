"""One Apache Kafka and one Muster for all checks; each check uses topics and groups of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from importlib.metadata import version

import pytest

from muster.actors.runtime.java import JavaNotFound
from tests.conformance.artifacts import Kafka, KafkaJs, ToolMissing, connect, kafka, kafkajs
from tests.conformance.kafka import KafkaBroker, archive_classes
from tests.conformance.summary import rows
from tests.marks import mark_folder
from tests.muster_process import Muster

_numbers = itertools.count(1)
_PYPI_CLIENTS = ("confluent-kafka",)


def pytest_report_header() -> str:
    """Versions of the compared programs and of the clients. Fetches missing ones."""
    try:
        kafkas = f"Apache Kafka, its tools and Java clients {kafka().version}, Connect {connect().version}"
        fetched = [kafkas, f"kafkajs {kafkajs().version}"]
    except (ToolMissing, JavaNotFound) as error:
        pytest.exit(str(error), returncode=1)
    return "conformance: " + ", ".join(fetched + [f"{name} {version(name)}" for name in _PYPI_CLIENTS])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    mark_folder(items, __file__, "conformance")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the programs that were run, with their results."""
    passed = terminalreporter.stats.get("passed", [])
    if table := rows(each for report in passed for each in report.user_properties):
        terminalreporter.section("programs")
        terminalreporter.write_line("\n".join(table))


@pytest.fixture(scope="session")
def release() -> Kafka:
    fetched = kafka()
    archive_classes(fetched)
    return fetched


@pytest.fixture(scope="session")
def installed_kafkajs() -> KafkaJs:
    return kafkajs()


@pytest.fixture(scope="session")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Two gateways; a short rebalance delay, so that groups settle fast."""
    storage = tmp_path_factory.mktemp("muster") / "storage"
    with Muster(storage, properties={"group.initial.rebalance.delay.ms": "300"}) as running:
        yield running


@pytest.fixture(scope="session")
def broker(release: Kafka) -> Iterator[KafkaBroker]:
    with KafkaBroker(release=release) as running:
        yield running


@pytest.fixture(scope="session", params=["muster", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Muster and, to reveal wrong expectations, Apache Kafka."""
    if request.param == "muster":
        return str(request.getfixturevalue("muster").bootstrap)
    return str(request.getfixturevalue("broker").bootstrap_servers)


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Return a maker of names that no other check uses."""
    return lambda kind: f"{kind}-{next(_numbers)}"
