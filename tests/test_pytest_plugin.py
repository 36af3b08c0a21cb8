"""The pytest plugin, as somebody else's tests use it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests.restart.test_restart import nothing_is_left

pytest_plugins = ["pytester"]

USER_TESTS = """
import os
import signal

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient


@pytest.fixture(scope="session")
def muster_properties(muster_properties):
    return {**muster_properties, "num.partitions": "3"}


def test_produce_and_consume(muster):
    topic = muster.topic(partitions=2)
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


def test_the_fault_was_cleared(muster):
    assert muster.faults.faults() == []


def test_interrupted_as_by_a_user():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_users_suite_and_ctrl_c(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        muster_gateways = 2
        muster_properties =
            message.max.bytes = 2000000
        """
    )
    pytester.makepyfile(USER_TESTS)
    result = pytester.runpytest_subprocess(
        "-v", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", f"--basetemp={pytester.path / 'temp'}"
    )
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])
    storage = pytester.path / "temp" / "muster0" / "storage"
    assert storage.is_dir()
    nothing_is_left(storage)
    assert not (pytester.path / ".hypothesis").exists()


def test_a_cluster_that_does_not_start_says_why(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmuster_properties = no.such.property = 1")
    pytester.makepyfile("def test_one(muster): pass\n\ndef test_two(muster): pass")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*muster up ended with exit code *", "*no.such.property*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_line_that_is_no_property_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmuster_properties = nonsense")
    pytester.makepyfile("def test_one(muster): pass")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*muster_properties has lines NAME=VALUE, not 'nonsense'*"])


def test_it_costs_nothing_where_it_is_not_used() -> None:
    (plugin,) = entry_points(group="pytest11", name="muster")
    code = f"import pytest, sys; before = set(sys.modules); import {plugin.value}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"gateway", "gateway.pytest_plugin"}
