"""A deployment of Ray Serve whose replicas are members of a group, scaled by Muster's lag."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pytest_muster import Muster
from pytest_muster.bound import bound

pytestmark = pytest.mark.ring(name="ray")

PARTITIONS, RECORDS = 4, 1_600


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with Muster(tmp_path_factory.mktemp("serve") / "storage") as running:
        yield running


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield that of a program with a Ray of its own, which leaves no token in the home directory."""
    token = tmp_path / "ray-token"
    token.write_text("a" * 64)
    token.chmod(0o600)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # names of sockets are short
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_TMPDIR": folder}
        yield {**os.environ, **own, "RAY_USAGE_STATS_ENABLED": "0"}


def changes(program: subprocess.Popen[str]) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield what the program prints, and when."""
    assert program.stdout is not None
    for line in program.stdout:
        if line.startswith("{"):
            yield time.monotonic(), json.loads(line)


def running(change: dict[str, Any]) -> int:
    return int(change["replicas"].get("RUNNING", 0))


@pytest.mark.timeout(300)
def test_from_no_replica_to_some_and_back(muster: Muster, environment: dict[str, str], tmp_path: Path) -> None:
    """No request is ever sent to the deployment. The group is unknown at first."""
    topic = muster.topic(partitions=PARTITIONS)
    arguments = {"bootstrap": muster.bootstrap, "http": [muster.http_url], "group": "readers", "topic": topic}
    command = [sys.executable, "-m", "tests.serve.application", json.dumps(arguments)]
    seen: list[tuple[float, int]] = []
    with (tmp_path / "stderr").open("w") as stderr:
        program = subprocess.Popen(
            bound(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
        )
        try:
            found = changes(program)
            begun_s, first = next(found)
            assert running(first) == 0
            producer = Producer({"bootstrap.servers": muster.bootstrap})
            for number in range(RECORDS):
                producer.produce(topic, b"x", partition=number % PARTITIONS)
            assert producer.flush(60) == 0
            for at_s, change in found:
                seen.append((round(at_s - begun_s, 1), running(change)))
                if not change["replicas"] and any(count for _, count in seen):
                    break
        finally:
            print("replicas:", seen)
            if program.stdin is not None:
                program.stdin.close()
            program.wait(60)
    assert program.returncode == 0, (tmp_path / "stderr").read_text()[-4000:]
    counts = [count for _, count in seen]
    assert 1 in counts[: counts.index(max(counts))]
    assert 2 <= max(counts) <= PARTITIONS
    assert committed(muster, topic) == [RECORDS // PARTITIONS] * PARTITIONS


def committed(muster: Muster, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": "readers"})
    try:
        found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], 30)
    finally:
        consumer.close()
    return [each.offset for each in found]
