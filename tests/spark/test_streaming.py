"""A stream's output says what the batch job says over the same rows, whatever happened in between."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from actors.tables.hours import Manifest, manifest_of
from actors.tables.reading import folder_of
from actors.tables.schemas.offsets import COMMITS, END_OFFSETS
from actors.tables.schemas.samples import SAMPLES
from spark.jobs import JOBS
from spark.jobs.job import Options, Section
from spark.streaming import output
from spark.streaming.checkpoint import Checkpoint, StreamRefused
from spark.streaming.folds import FOLDS, fold_commits
from spark.streaming.output import BatchFolders
from spark.streaming.stream import default_output, run_stream, stream_sections
from spark.tables import read_table
from tests.spark.arrivals import sample, write_samples
from tests.spark.rows import NOON, answer, at, table

OPTIONS = Options(timezone="Europe/Berlin", price_per_gib=2.0, now=datetime(2027, 1, 1, tzinfo=UTC))


SUMS = frozenset({"groups", "unattributed", "per_bucket"})
"""Sections in which a row that is missing or counted twice shows."""

Said = Mapping[str, list[tuple[Any, ...]]]


def said_by(sections: Sequence[Section], names: frozenset[str]) -> Said:
    asked = [section for section in sections if not names or section.name in names]
    return {section.name: [tuple(row) for row in section.frame.collect()] for section in asked}


def batch(spark: SparkSession, storage: Path, options: Options = OPTIONS, *, names: frozenset[str] = SUMS) -> Said:
    samples = read_table(spark, storage, SAMPLES, start=options.start, end=options.end)
    return said_by(JOBS["consumption"].sections({SAMPLES: samples}, options), names)


def streamed(spark: SparkSession, storage: Path, options: Options = OPTIONS, *, names: frozenset[str] = SUMS) -> Said:
    return said_by(stream_sections(spark, storage, "consumption", options), names)


def run(spark: SparkSession, storage: Path) -> None:
    run_stream(spark, storage, "consumption", once=True)


def test_files_that_arrive_and_one_that_comes_hours_late(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(3)
    for number, hour in enumerate((0, 1, 2, 0)):  # the last: a dead gateway's spool, recovered by its successor
        write_samples(tmp_path, f"gateway-1-run-{number:08d}", chance, hour=hour)
        run(spark, tmp_path)
    assert len(list(BatchFolders(default_output(tmp_path, "consumption") / SAMPLES, SAMPLES).path.glob("batch-*"))) == 4
    every = frozenset[str]()
    assert streamed(spark, tmp_path, names=every) == batch(spark, tmp_path, names=every)
    hour = Options(start=NOON + timedelta(hours=1), end=NOON + timedelta(minutes=90), now=OPTIONS.now)
    assert streamed(spark, tmp_path, hour) == batch(spark, tmp_path, hour)


def test_a_batch_that_was_written_and_not_noted_is_not_written_twice(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that is killed between the two runs the batch again."""
    chance = random.Random(4)
    write_samples(tmp_path, "gateway-1-run-00000001", chance)
    run(spark, tmp_path)
    noted = default_output(tmp_path, "consumption") / "_checkpoint" / SAMPLES / "commits"
    for file in (*noted.glob("0"), *noted.glob(".0.crc")):
        file.unlink()
    write_samples(tmp_path, "gateway-1-run-00000002", chance)
    run(spark, tmp_path)
    assert streamed(spark, tmp_path) == batch(spark, tmp_path)


def test_a_batch_that_was_half_written_is_written_anew(spark: SparkSession, tmp_path: Path) -> None:
    folders = BatchFolders(tmp_path / SAMPLES, SAMPLES)
    half = folders.path / ".batch-000000000"
    half.mkdir(parents=True)
    (half / "part-00000.parquet").write_bytes(b"PAR1")
    rows = table(spark, SAMPLES, [sample(random.Random(1))])
    assert folders.read(spark).collect() == []
    folders.write(rows, 0)
    assert folders.read(spark).count() == 1


def test_batches_are_put_together_and_say_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "TIER", 2)
    chance = random.Random(5)
    folders = BatchFolders(tmp_path, SAMPLES)
    rows = [table(spark, SAMPLES, [sample(chance) for _ in range(20)]) for _ in range(5)]
    for number, each in enumerate(rows):
        folders.write(each, number)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"batch-{number:09d}" for number in (2, 3, 4)),  # those of the last tier stay for who reads them now
        *(f"tier-{number:09d}" for number in (0, 1)),
    ]
    everything = rows[0].union(rows[1]).union(rows[2]).union(rows[3]).union(rows[4])
    assert in_some_order(folders.read(spark)) == in_some_order(FOLDS[SAMPLES](everything))
    folders.write(rows[1], 1)  # run again after it was put together
    assert in_some_order(folders.read(spark)) == in_some_order(FOLDS[SAMPLES](everything))


@pytest.mark.parametrize("name", [SAMPLES, COMMITS, END_OFFSETS])
def test_a_fold_of_folds_is_the_fold_of_everything(spark: SparkSession, name: str) -> None:
    chance = random.Random(6)
    make = {SAMPLES: sample, COMMITS: commit, END_OFFSETS: end_offset}[name]
    rows = table(spark, name, [make(chance) for _ in range(300)]).withColumn("part", F.lit(0))
    rows = rows.withColumn("part", F.xxhash64(*rows.columns) % 2 == 0).cache()
    fold = FOLDS[name]
    parts = [fold(rows.where(F.col("part") == part).drop("part")) for part in (True, False)]
    assert min(part.count() for part in parts) > 0
    folded = fold(parts[0].unionByName(parts[1]))
    assert in_some_order(folded) == in_some_order(fold(rows.drop("part")))


def in_some_order(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def commit(chance: random.Random) -> dict[str, Any]:
    offset, before = chance.randrange(100), chance.randrange(100)
    return {
        "ts": at(chance.randrange(300)),
        "offsets_partition": 7,
        "epoch": chance.randrange(2),
        "group": f"g-{chance.randrange(2)}",
        "topic": "flights",
        "partition": chance.randrange(2),
        "kind": "commit",
        "offset": offset,
        "lowest": min(offset, before),
        "previous": before,
        "commits": chance.randrange(1, 9),
    }


def end_offset(chance: random.Random) -> dict[str, Any]:
    return {
        "ts": at(chance.randrange(300)),
        "log": 0,
        "topic": "flights",
        "partition": chance.randrange(3),
        "epoch": chance.randrange(2),
        "log_start_offset": 0,
        "log_end_offset": chance.randrange(1000),
        "last_append": at(chance.randrange(300)),
        "size_bytes": chance.randrange(1000),
    }


def test_commits_of_a_minute_are_one_window(spark: SparkSession) -> None:
    window = {"offsets_partition": 7, "epoch": 3, "group": "billing", "topic": "flights", "partition": 0}
    rows = [
        {**window, "ts": at(5), "kind": "commit", "offset": 20, "lowest": 15, "previous": 10, "commits": 2},
        {**window, "ts": at(35), "kind": "commit", "offset": 8, "lowest": 8, "previous": 20, "commits": 1},
        {**window, "ts": at(59.999), "kind": "deleted", "previous": 8, "commits": 0},
        {**window, "ts": at(60), "kind": "commit", "offset": 30, "lowest": 30, "commits": 1},
    ]
    folded = fold_commits(table(spark, COMMITS, rows)).orderBy("ts")
    assert answer(folded, "kind", "offset", "lowest", "previous", "commits") == [
        ("deleted", None, 8, 10, 3),
        ("commit", 30, 30, None, 1),
    ]


def test_a_stream_that_read_a_file_before_it_was_merged_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    file = write_samples(tmp_path, "gateway-1-run-00000001", chance)
    run(spark, tmp_path)
    merge(file)
    write_samples(tmp_path, "gateway-1-run-00000002", chance, hour=1)
    run(spark, tmp_path)
    assert streamed(spark, tmp_path) == batch(spark, tmp_path)


def test_a_stream_that_missed_a_file_is_refused_and_says_which(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(8)
    write_samples(tmp_path, "gateway-1-run-00000001", chance)
    run(spark, tmp_path)
    missed = write_samples(tmp_path, "gateway-1-run-00000002", chance, hour=1)
    merge(missed)
    with pytest.raises(StreamRefused, match=r"hour=13/gateway-1-run-00000002\.parquet.*metrics\.compaction\.delay\.ms"):
        run(spark, tmp_path)


def test_what_was_merged_before_the_first_start_is_no_reason_to_refuse(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(9)
    merge(write_samples(tmp_path, "gateway-1-run-00000001", chance))
    write_samples(tmp_path, "gateway-1-run-00000002", chance, hour=1, rows=7)
    for _ in range(2):
        run(spark, tmp_path)
    later = Options(start=NOON + timedelta(hours=1), now=OPTIONS.now)
    assert streamed(spark, tmp_path, later) == batch(spark, tmp_path, later)


def merge(file: Path) -> None:
    """As compaction leaves it when the time of grace is over."""
    merged = file.with_name("merged-00000001.parquet")
    manifest_of(merged).write_bytes(Manifest(files=frozenset({file.name}), at_ms=0).to_json())
    file.rename(merged)


def test_one_driver_at_a_time_and_output_and_checkpoint_of_one_stream(tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    held = Checkpoint.open(checkpoint, out, [SAMPLES])
    with pytest.raises(StreamRefused, match="running already"):
        Checkpoint.open(checkpoint, out, [SAMPLES])
    held.release()
    with pytest.raises(StreamRefused, match="not made together"):
        Checkpoint.open(checkpoint, tmp_path / "another", [SAMPLES])
    (out / SAMPLES / "batch-000000000").mkdir(parents=True)
    with pytest.raises(StreamRefused, match="not made together"):
        Checkpoint.open(tmp_path / "a new one", out, [SAMPLES])
    with pytest.raises(StreamRefused, match="of a stream of samples, not of commits"):
        Checkpoint.open(checkpoint, out, [COMMITS])
    Checkpoint.open(checkpoint, out, [SAMPLES]).release()


def test_a_stream_is_asked_for_whole_minutes(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamRefused, match="90 s is no multiple"):
        stream_sections(spark, tmp_path, "consumption", Options(bucket_seconds=90))
    with pytest.raises(StreamRefused, match="no output of a stream"):
        stream_sections(spark, tmp_path, "consumption", Options())
    assert not folder_of(tmp_path, SAMPLES).exists()
