"""An installed Muster, in a project whose own packages have the names of Muster's folders, or ``muster``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.test_dist import FOLDERS
from tests.plugin.users_environment import make_environment_with_muster, run_pytest
from tests.restart.test_restart import nothing_is_left

pytestmark = pytest.mark.ring(name="plugin")


CONFIGURATION = """
[pytest]
muster_properties = metrics.samples.flush.ms = 500
"""

PLAN = """
name: the coordinator is killed, and its successor refuses a commit
steps:
  - {at: 0s, action: error, api: OffsetCommit, error: NOT_COORDINATOR, when: once}
  - {at: 100ms, action: kill, group: readers}
"""

TESTS = """
import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import actors
import gateway
import muster as own_muster
import placement
import spark
import tests
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pytest_muster import FaultClient

TOPIC, GROUP, COUNT = "orders", "readers", 20


def commit(muster, offset):
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": GROUP})
    (committed,) = consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    assert committed.error is None
    committed = until(lambda: committed_by(consumer))
    consumer.close()
    return committed.offset


def committed_by(consumer):
    # None while the coordinator passes from a standby back to its actor: librdkafka does not send it again.
    try:
        return consumer.committed([TopicPartition(TOPIC, 0)], 30)[0]
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_COORDINATOR:
            raise


def test_the_projects_packages_are_its_own():
    packages = (actors, gateway, own_muster, placement, spark, tests)
    assert {package.OWNER for package in packages} == {"the project"}


def test_produce_and_consume(muster):
    muster.topic(TOPIC)
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    for number in range(COUNT):
        producer.produce(TOPIC, f"order-{number}")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    orders = [consumer.poll(30).value() for _ in range(COUNT)]
    consumer.close()
    assert orders == [f"order-{number}".encode() for number in range(COUNT)]


def test_a_plan_of_faults(muster):
    faults = FaultClient(muster.http_url)
    faults.run("outage.yaml")
    assert commit(muster, 7) == 7
    assert [fault["hits"] for fault in faults.faults()] == [1]
    until(lambda: 'muster_faults_injected_total{gateway="1",action="kill"' in scrape(muster))


def scrape(muster):
    with urlopen(muster.metrics_urls[0], timeout=30) as response:
        return response.read().decode()


def until(condition):
    deadline_s = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    return found


def test_spark_through_raydp(muster):
    command = [str(Path(sys.executable).with_name("muster")), "spark", "consumption", "--format", "json"]
    done = subprocess.run([*command, "--storage", str(muster.storage)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["jobs"]["consumption"]
    (row,) = (row for row in answer["groups"]["rows"] if row["group"] == GROUP)
    assert (row["messages"], row["distinct"]) == (COUNT, COUNT)
"""


@pytest.mark.timeout(900)  # a Muster that starts and stops, a Spark
def test_a_project_with_packages_of_the_same_names(dist: Path, tmp_path: Path) -> None:
    python = make_environment_with_muster(tmp_path / "environment", *dist.glob("*.whl"))
    project = tmp_path / "project"
    for name in (*FOLDERS, "muster", "tests"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text('OWNER = "the project"\n')
    (project / "pytest.ini").write_text(CONFIGURATION)
    (project / "outage.yaml").write_text(PLAN)
    (project / "tests" / "test_orders.py").write_text(TESTS)
    before = {path for path in project.rglob("*") if path.is_file()}
    done = run_pytest(python, project, "-v", f"--basetemp={tmp_path / 'temp'}")
    assert "4 passed" in done.stdout, done.stdout
    assert {path for path in project.rglob("*") if path.is_file() and path.suffix != ".pyc"} == before
    nothing_is_left(tmp_path / "temp" / "muster0" / "storage")
