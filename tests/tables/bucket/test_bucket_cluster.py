"""A real Muster whose tables are in a bucket. Its logs are in the directory: ``storage.path`` takes no URI yet."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from muster.actors.runtime.storage import META
from muster.actors.tables.reading import read
from muster.actors.tables.schemas.samples import SAMPLES
from tests.muster_process import Muster, eventually
from tests.object_storage.conftest import Connect, connect, proxy, service, uri

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(300)]

__all__ = ["connect", "proxy", "service", "uri"]

_UP = """
import sys
from muster.actors.runtime.settings import ClusterSettings
ClusterSettings.__init__.__kwdefaults__["bucket"] = sys.argv.pop(1)
from muster.gateway.cli.main import main
main()
"""
RECORDS = 500


@dataclass
class MusterOnBucket(Muster):
    uri: str = ""

    @property
    def command(self) -> list[str]:
        arguments = super().command
        return [sys.executable, "-c", _UP, self.uri, *arguments[arguments.index("up") :]]


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


def test_everything_is_in_the_bucket_after_all_processes_were_killed(
    muster: MusterOnBucket, uri: str, connect: Connect
) -> None:
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


def test_a_cluster_goes_on_while_the_bucket_is_away(
    muster: MusterOnBucket, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in good time, too; the next one uploads what was left."""
    assert muster.environment is not None
    with muster:
        pass
    assert (muster.storage / META).exists()
    muster.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
    with muster:
        consume(muster.bootstrap)
    assert sent(uri) == []
    assert any(path.suffix == ".parquet" for path in left(muster))
    muster.environment["AWS_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"]
    with muster:
        eventually(lambda: messages(uri), lambda found: found == RECORDS, "samples of before in the bucket", 60)
    assert left(muster) == []
