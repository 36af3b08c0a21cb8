"""Spark's jobs read a bucket by S3A: in a process of its own, since a process has one JVM, with one set of jars."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.actors.object_storage.location import NotALocation
from muster.actors.object_storage.store import ObjectStore
from muster.actors.tables.bucket.uploads import upload
from muster.spark.bucket import TablesInBucket, bucket_settings
from muster.spark.command import main
from pytest_muster.bound import bound
from tests.conformance.artifacts import s3a
from tests.object_storage.conftest import Connect, connect, proxy, service, uri
from tests.tables.bucket.making import flushed
from tests.tables.bucket.test_bucket_compaction import compaction, fill
from tests.tables.events import HOUR_MS, NOON_MS

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(600)]

__all__ = ["connect", "proxy", "service", "uri"]

_READ = """
import json, sys
from datetime import datetime
from muster.spark.session import local_session
from muster.spark.tables import read_table

uri, settings, ranges = json.loads(sys.argv[1])
with local_session(settings=settings) as spark:
    for start, end in ranges:
        times = {name: text and datetime.fromisoformat(text) for name, text in (("start", start), ("end", end))}
        rows = read_table(spark, uri, "lifecycle", **times).select("epoch", "hour").collect()
        print(json.dumps(sorted([row.epoch, row.hour] for row in rows)))
"""


_READ_ON_RAY = """
import json, sys
from pathlib import Path
from muster.spark.session import raydp_session
from muster.spark.tables import read_table

uri, settings, address, token_path = json.loads(sys.argv[1])
with raydp_session(address, token_path=Path(token_path), settings=settings) as spark:
    print(json.dumps(sorted(row.epoch for row in read_table(spark, uri, "lifecycle").select("epoch").collect())))
"""


def spark_settings() -> dict[str, str]:
    """Return the settings of jobs, with jars of the tests' cache instead of ones that Spark fetches."""
    found = bucket_settings()
    package = found.pop("spark.jars.packages")
    name, _, version = package.rpartition(":")
    assert name == "org.apache.hadoop:hadoop-aws"
    return {**found, "spark.jars": ",".join(map(str, s3a(version).glob("*.jar")))}


def test_rows_that_count(connect: Connect, uri: str, tmp_path: Path) -> None:
    """Rows of merged files count, and not those of what they replaced, or of what nobody named."""
    store = ObjectStore(connect())
    fill(store, tmp_path, 1, 2)
    asyncio.run(compaction(store, tmp_path).run())
    flushed(tmp_path / "later" / "metrics", 1, 2, owner="log-0")
    asyncio.run(upload(tmp_path / "later" / "metrics", store))
    leftover = tmp_path / "metrics" / "lifecycle" / "date=2023-11-15" / "hour=14" / "merged-0123456789abcdef.parquet"
    flushed(tmp_path / "metrics", 2, owner="log-5")
    (written,) = (tmp_path / "metrics" / "lifecycle").rglob("log-5-*.parquet")
    written.rename(leftover)
    asyncio.run(upload(tmp_path / "metrics", store))
    at = datetime.fromtimestamp((NOON_MS + 2 * HOUR_MS) / 1000, UTC).isoformat()
    lines = in_another_process([uri, spark_settings(), [[None, None], [at, None], [None, at]]])
    assert lines == [[[1, 12], [1, 13], [2, 12], [2, 14]], [[2, 14]], [[1, 12], [1, 13], [2, 12]]]


def in_another_process(request: list[Any]) -> list[Any]:
    command = [sys.executable, "-c", _READ, json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_jars_and_endpoint() -> None:
    found = bucket_settings({"AWS_ENDPOINT_URL": "http://host:1", "AWS_REGION": "eu-1", "AWS_SECRET_ACCESS_KEY": "k"})
    assert found["spark.hadoop.fs.s3a.endpoint"] == "http://host:1"
    assert found["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert found["spark.hadoop.fs.s3a.endpoint.region"] == "eu-1"
    assert "k" not in found.values()
    assert "spark.hadoop.fs.s3a.endpoint" not in bucket_settings({})


def test_others_than_s3_are_refused() -> None:
    with pytest.raises(NotALocation, match="gs://bucket/a: Spark's jobs read s3:// only"):
        TablesInBucket.of("gs://bucket/a")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bucket": "gs://bucket/a"}, "gs://bucket/a: Spark's jobs read s3:// only"),
        ({"stream": True}, "a stream cannot read the tables of s3://muster-tests/"),
    ],
)
def test_requests_that_are_refused(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], why: str
) -> None:
    request = {"storage": str(tmp_path), "bucket": uri, "jobs": ["failover" if not changes.get("stream") else "lag"]}
    assert main([json.dumps({**request, "options": {}, **changes})]) == 1
    assert f"muster: {why}" in capsys.readouterr().err


def test_executors_on_ray(connect: Connect, uri: str, tmp_path: Path) -> None:
    """They are other processes than the driver, get the jars from it, and read the bucket themselves."""
    flushed(tmp_path / "metrics", 1, 2)
    asyncio.run(upload(tmp_path / "metrics", ObjectStore(connect())))
    storage = tmp_path / "ray"
    storage.mkdir()
    head = subprocess.Popen(
        bound([sys.executable, "-m", "tests.spark.ray_head", str(storage)]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert head.stdout is not None
        ready = json.loads(head.stdout.readline())
        request = [uri, spark_settings(), ready["address"], ready["token_path"]]
        command = [sys.executable, "-c", _READ_ON_RAY, json.dumps(request)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [1, 2]
    finally:
        head.communicate()


def test_a_job(connect: Connect, uri: str, tmp_path: Path) -> None:
    """The process of ``muster spark`` runs it, with jars of the cache."""
    flushed(tmp_path / "metrics", 1, 2)
    asyncio.run(upload(tmp_path / "metrics", ObjectStore(connect())))
    request = {"storage": str(tmp_path), "bucket": uri, "jobs": ["failover"], "options": {}, "format": "json"}
    code = "import json, sys; from muster.spark import command; s = json.loads(sys.argv[1]); "
    code += "command.bucket_settings = lambda: s; sys.exit(command.main([sys.argv[2]]))"
    command = [sys.executable, "-c", code, json.dumps(spark_settings()), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
