"""Spark reads what the stores wrote, and only the valid files of a table (tests/tables/test_reading.py: pyarrow)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA
from muster.actors.tables.spool import Sample, SampleStore
from muster.placement.view import UNDO_PREFIX
from muster.spark import tables
from muster.spark.jobs.consumption import per_group, per_partition
from muster.spark.tables import TableDamaged, damage_in, read_table, schema_of, stream_table
from tests.tables.events import HOUR_MS, NOON_MS
from tests.tables.making import merged, of_version, put, with_column, without

NOON = datetime.fromtimestamp(NOON_MS / 1000, UTC)
HOUR = timedelta(hours=1)


def epochs(frame: DataFrame) -> list[int]:
    return sorted(row.epoch for row in frame.select("epoch").collect())


def test_no_table_yet(spark: SparkSession, tmp_path: Path) -> None:
    samples = read_table(spark, tmp_path, SAMPLES)
    assert samples.columns == [*SAMPLES_SCHEMA.names, "date", "hour"]
    assert samples.collect() == []


def test_a_table_with_nothing_whole_in_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "metrics" / "samples" / "date=2026-05-01" / "hour=12"
    folder.mkdir(parents=True)
    (folder / ".gateway-1.parquet.partial").write_bytes(b"PAR1")
    assert read_table(spark, tmp_path, SAMPLES).collect() == []


def test_what_two_gateways_wrote(spark: SparkSession, tmp_path: Path) -> None:
    for gateway in (0, 1):
        store = SampleStore(tmp_path / "metrics", gateway, flush_ms=5000, now_ms=lambda: 1_777_640_400_000)
        for fetch in range(3):
            store.add(_sample(ts_ms=1_777_640_400_250 + 3_600_000 * fetch, first_offset=100 * gateway + 10 * fetch))
        store.close()
    samples = read_table(spark, tmp_path, SAMPLES)
    row = samples.orderBy("ts", "first_offset").first()
    assert row is not None
    assert (row.ts.timestamp(), row.gateway, row.client_id, row.hour) == (1_777_640_400.25, 0, None, 13)
    assert samples.where("hour = 15").count() == 2
    assert [tuple(total) for total in per_group(per_partition(samples)).collect()] == [("billing", 60, 6000, 60, 0)]


def test_only_requested_folders_and_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """There is no hour 14; the start is in the middle of an hour, the end is exclusive, and damage is outside."""
    for epoch, ts_ms in enumerate((NOON_MS, NOON_MS + HOUR_MS // 2, NOON_MS + HOUR_MS, NOON_MS + 3 * HOUR_MS)):
        put(tmp_path, f"controller-{epoch}", [epoch], ts_ms=ts_ms)
    put(tmp_path, "controller-broken", [9], ts_ms=NOON_MS - HOUR_MS).write_bytes(b"PAR1")
    frame = read_table(spark, tmp_path, LIFECYCLE, start=NOON + HOUR / 2, end=NOON + 3 * HOUR)
    assert epochs(frame) == [1, 2]
    assert len(frame.inputFiles()) == 3
    plan = frame.select("epoch")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<ts:timestamp,epoch:int>" in plan
    assert "PartitionFilters: [isnotnull(date" in plan
    assert read_table(spark, tmp_path, LIFECYCLE, start=NOON + 9 * HOUR).schema.names == schema_of(LIFECYCLE).names
    with pytest.raises(ValueError, match="time zone"):
        read_table(spark, tmp_path, LIFECYCLE, start=datetime(2026, 1, 1))


def test_a_compacted_hour_counts_once_in_batches_and_as_written_in_streams(spark: SparkSession, tmp_path: Path) -> None:
    storage = tmp_path / "a[b]{c"  # a pattern to Hadoop
    first, second = put(storage, "controller-1", [1]), put(storage, "mercury-2", [2], ts_ms=NOON_MS)
    put(storage, "controller-3", [3])
    (first.parent / "notes.txt").write_text("hello")
    merged(storage, 1, [first, second], [1, 2])
    assert epochs(read_table(spark, storage, LIFECYCLE)) == [1, 2, 3]
    merged(tmp_path, 1, [put(tmp_path, "mercury-1", [4]), put(tmp_path, "log-0-1", [5])], [4, 5])
    query = stream_table(spark, tmp_path, LIFECYCLE).writeStream.format("memory").queryName("seen")
    running = query.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    running.awaitTermination()
    assert epochs(spark.table("seen")) == [4, 5]


def test_groups_that_keep_replaced_offsets_are_not_in_any_table(spark: SparkSession, tmp_path: Path) -> None:
    store = SampleStore(tmp_path / "metrics", 0, flush_ms=5000, now_ms=lambda: NOON_MS)
    for group in ("readers", f"{UNDO_PREFIX}readers", None):
        store.add(replace(_sample(ts_ms=NOON_MS, first_offset=0), group=group))
    store.close()
    query = stream_table(spark, tmp_path, SAMPLES).writeStream.format("memory").queryName("groups")
    running = query.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    running.awaitTermination()
    for frame in (read_table(spark, tmp_path, SAMPLES), spark.table("groups")):
        assert {row.group for row in frame.select("group").collect()} == {"readers", None}


def test_a_compaction_between_our_look_and_sparks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = put(tmp_path, "controller-1", [1]), put(tmp_path, "controller-2", [2])
    load = tables.read_paths
    loads = []

    def merged_just_before(*args: Any) -> DataFrame:
        loads.append(args)
        if len(loads) == 1:
            merged(tmp_path, 1, [first, second], [1, 2])
        return load(*args)

    monkeypatch.setattr(tables, "read_paths", merged_just_before)
    assert epochs(read_table(spark, tmp_path, LIFECYCLE)) == [1, 2]
    assert len(loads) == 2


def test_files_of_other_versions(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "controller-1", [1], schema=without("reason", "pid"))
    put(tmp_path, "controller-2", [2], schema=with_column(pa.field("colour", pa.string())), colour="red", reason="r")
    frame = read_table(spark, tmp_path, LIFECYCLE)
    assert [(row.epoch, row.reason) for row in frame.orderBy("epoch").collect()] == [(1, None), (2, "r")]
    assert frame.columns == schema_of(LIFECYCLE).names
    newer = put(tmp_path, "controller-3", [3], schema=of_version(2))
    for read in (read_table, stream_table):
        with pytest.raises(TableDamaged, match=f"^{newer}: is of version 2 of lifecycle"):
            read(spark, tmp_path, LIFECYCLE)


def test_a_damaged_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "controller-1", [1])
    path = put(tmp_path, "controller-2", range(100))
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(296) + whole[300:])
    frame = read_table(spark, tmp_path, LIFECYCLE)
    with pytest.raises(Py4JError) as thrown:
        frame.collect()
    assert str(damage_in(thrown.value)) == f"{path}: is damaged: muster tables verify shows the damage"
    path.unlink()
    with pytest.raises(Py4JError) as thrown:
        frame.collect()
    assert "run the job again" in str(damage_in(thrown.value))
    assert damage_in(ValueError("no file")) is None
    assert damage_in(ValueError(f"Path file:{tmp_path}/lag.parquet/groups already exists")) is None
    path.write_bytes(whole[:-9])
    with pytest.raises(TableDamaged, match=r"controller-2\.parquet: is not a whole Parquet file"):
        read_table(spark, tmp_path, LIFECYCLE)


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
