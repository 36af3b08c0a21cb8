"""A real Muster on a bucket, and its tables."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from muster.actors.tables.reading import read
from muster.actors.tables.schemas.samples import SAMPLES
from tests.muster_process import Muster, eventually
from tests.object_storage.conftest import Connect, connect, proxy, service, uri
from tests.object_storage.faulty import Fault, Proxy

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(300)]

__all__ = ["connect", "proxy", "service", "uri"]

RECORDS = 500


@dataclass
class MusterOnBucket(Muster):
    """``storage`` is the directory of the node."""

    uri: str = ""

    @property
    def command(self) -> list[str]:
        arguments = super().command
        place = arguments.index("--storage")
        arguments[place : place + 2] = ["--set", f"storage.path={self.uri}"]
        return [*arguments, "--set", f"storage.object.cache.path={self.storage}"]


def consume(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("flights", str(number).encode())
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["flights"])
    try:
        assert len(consumer.consume(RECORDS, timeout=60)) == RECORDS
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def sent(uri: str) -> list[dict[str, Any]]:
    """Return the samples of the group."""
    return [row for row in read(uri, SAMPLES).to_pylist() if row["group"] == "readers"]


def messages(uri: str) -> int:
    return sum(row["messages"] for row in sent(uri))


@pytest.fixture
def muster(connect: Connect, uri: str, tmp_path: Path) -> MusterOnBucket:
    connect()
    properties = {"metrics.samples.flush.ms": "60000", "num.partitions": "1"}
    return MusterOnBucket(tmp_path / "storage", ["--gateways", "1"], properties, environment=dict(os.environ), uri=uri)


def left(muster: Muster) -> list[Path]:
    return [path for path in (muster.storage / "metrics").rglob("*") if path.suffix in (".parquet", ".jsonl", ".slots")]


def test_everything_is_in_the_bucket_after_a_stop(muster: MusterOnBucket, uri: str) -> None:
    with muster:
        consume(muster.bootstrap)
        assert sent(uri) == []
    assert messages(uri) == RECORDS
    assert {row["evidence"] for row in sent(uri)} <= {"assignment", "unique_candidate"}
    events = [row["event"] for row in read(uri, "lifecycle").sort_by("ts").to_pylist() if row["actor"] == "controller"]
    assert events[-1] == "stopped"
    assert left(muster) == []


def test_everything_is_in_the_bucket_after_all_processes_were_killed(muster: MusterOnBucket, uri: str) -> None:
    muster.start()
    consume(muster.bootstrap)
    muster.kill_everything()
    assert sent(uri) == []
    assert left(muster) != []
    muster.start()
    try:
        eventually(lambda: messages(uri), lambda found: found == RECORDS, "samples of before in the bucket", 60)
    finally:
        muster.stop()
    assert messages(uri) == RECORDS
    rows = [(row["partition"], row["first_offset"]) for row in sent(uri)]
    assert len(rows) == len(set(rows))
    assert left(muster) == []


def test_a_cluster_whose_tables_cannot_be_written(
    connect: Connect, proxy: Proxy, uri: str, tmp_path: Path, muster: MusterOnBucket
) -> None:
    """It serves, and ends in good time; the next one uploads what was left."""
    assert muster.environment is not None
    muster.environment["AWS_ENDPOINT_URL"] = proxy.url
    proxy.plan(*[Fault.SLOW_DOWN] * 100_000, part="/metrics/")
    with muster:
        consume(muster.bootstrap)
    assert sent(uri) == []
    assert any(path.suffix == ".parquet" for path in left(muster))
    proxy._planned.clear()
    with muster:
        eventually(lambda: messages(uri), lambda found: found == RECORDS, "samples of before in the bucket", 60)
    assert left(muster) == []


def test_commands_read_the_tables(muster: MusterOnBucket) -> None:
    with muster:
        admin = AdminClient({"bootstrap.servers": muster.bootstrap})
        admin.create_topics([NewTopic("made", 1)])["made"].result(60)
    rows = json.loads(muster.cli("audit-log", "--json"))
    assert "made" in [row["resource"] for row in rows]
    done = muster.run("tables", "list")
    assert done.returncode == 1
    assert f"the tables of {muster.storage} are in {muster.uri}, which muster tables does not read" in done.stderr
