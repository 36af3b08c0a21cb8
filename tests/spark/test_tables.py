"""Spark reads what the gateways' sample store wrote."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from actors.tables.schemas.samples import SAMPLES_SCHEMA
from actors.tables.spool import Sample, SampleStore
from spark.jobs.consumption import per_group, per_partition
from spark.tables import read_samples


def test_no_table_yet(spark: SparkSession, tmp_path: Path) -> None:
    samples = read_samples(spark, tmp_path)
    assert samples.columns == [*SAMPLES_SCHEMA.names, "date", "hour"]
    assert samples.collect() == []


def test_a_table_with_nothing_whole_in_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "metrics" / "samples" / "date=2026-05-01" / "hour=12"
    folder.mkdir(parents=True)
    (folder / ".gateway-1.parquet.partial").write_bytes(b"PAR1")
    assert read_samples(spark, tmp_path).collect() == []


def test_what_two_gateways_wrote(spark: SparkSession, tmp_path: Path) -> None:
    for gateway in (0, 1):
        store = SampleStore(tmp_path / "metrics", gateway, flush_ms=5000, now_ms=lambda: 1_777_640_400_000)
        for fetch in range(3):
            store.add(_sample(ts_ms=1_777_640_400_250 + 3_600_000 * fetch, first_offset=100 * gateway + 10 * fetch))
        store.close()
    samples = read_samples(spark, tmp_path)
    row = samples.orderBy("ts", "first_offset").first()
    assert row is not None
    assert (row.ts.timestamp(), row.gateway, row.client_id, row.hour) == (1_777_640_400.25, 0, None, 13)
    assert samples.where("hour = 15").count() == 2
    assert [tuple(total) for total in per_group(per_partition(samples)).collect()] == [("billing", 60, 6000, 60, 0)]


def _sample(*, ts_ms: int, first_offset: int) -> Sample:
    return Sample(
        ts_ms=ts_ms,
        group="billing",
        member_id="m-1",
        client_id=None,
        host="127.0.0.1",
        topic="flights",
        partition=0,
        evidence="assignment",
        reason=None,
        messages=10,
        bytes=1000,
        first_offset=first_offset,
        last_offset=first_offset + 9,
    )
