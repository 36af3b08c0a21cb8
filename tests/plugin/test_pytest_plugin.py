"""The pytest plugin, in an environment without Muster, as in a user's own tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.plugin.users_environment import build_wheel, make_environment, run_pytest
from tests.restart.test_restart import nothing_is_left

pytestmark = pytest.mark.ring(name="plugin")

CONFIGURATION = """
[pytest]
muster_gateways = 2
muster_properties =
    message.max.bytes = 2000000
"""

FIRST_MODULE = """
from importlib.util import find_spec
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient


@pytest.fixture(scope="session")
def muster_properties(muster_properties):
    return {**muster_properties, "num.partitions": "3"}


def test_nothing_of_the_server_is_here():
    assert [name for name in ("ray", "pyspark", "kio", "muster") if find_spec(name)] == []


def test_produce_and_consume(muster):
    topic = muster.topic(partitions=2, config={"retention.ms": "600000"})
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    producer.produce(topic, b"hello")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert consumer.poll(30).value() == b"hello"
    consumer.close()


def test_properties_and_addresses(muster, muster_properties):
    assert muster_properties == {"message.max.bytes": "2000000", "num.partitions": "3"}
    assert muster.properties["message.max.bytes"] == "2000000"
    assert muster.properties["fault.injection.enable"] == "true"
    assert len(muster.bootstrap.split(",")) == len(muster.metrics_urls) == 2
    assert muster.metrics_urls[0] == f"{muster.http_url}/metrics"
    brokers = AdminClient({"bootstrap.servers": muster.bootstrap}).list_topics(timeout=30).brokers
    assert sorted(f"{broker.host}:{broker.port}" for broker in brokers.values()) == sorted(muster.bootstrap.split(","))
    assert '"state": "alive"' in muster.cli("status", "--json")


def test_a_fault(muster, muster_faults):
    muster_faults.inject("error", api="OffsetCommit", error="NOT_COORDINATOR")
    assert len(muster.faults.faults()) == 1
    Path("cluster").write_text(muster.bootstrap)
"""

SECOND_MODULE = """
import os
import signal
from pathlib import Path


def test_the_next_module_has_the_same_cluster_and_no_fault(muster):
    assert muster.bootstrap == Path("cluster").read_text()
    assert muster.faults.faults() == []


def test_interrupted_as_by_a_user():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_users_suite_and_ctrl_c(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment", build_wheel(tmp_path / "wheel"), ["confluent-kafka"])
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "pytest.ini").write_text(CONFIGURATION)
    (suite / "test_first.py").write_text(FIRST_MODULE)
    (suite / "test_second.py").write_text(SECOND_MODULE)
    command = f"{sys.executable} -m muster.gateway.cli.main"
    done = run_pytest(python, suite, "-v", f"--basetemp={tmp_path / 'temp'}", MUSTER_COMMAND=command)
    assert "5 passed" in done.stdout, done.stdout
    assert "KeyboardInterrupt" in done.stdout
    storage = tmp_path / "temp" / "muster0" / "storage"
    assert storage.is_dir()
    nothing_is_left(storage)
    assert not (suite / ".hypothesis").exists()
