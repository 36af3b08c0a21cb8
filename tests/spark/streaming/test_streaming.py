"""A stream's output equals the batch job's over the same rows, whatever happened in between."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster.actors.tables.hours import Manifest, manifest_of
from muster.actors.tables.schemas.groups import GROUP_EVENTS
from muster.actors.tables.schemas.offsets import COMMITS, END_OFFSETS
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Options, Section
from muster.spark.streaming import output
from muster.spark.streaming.checkpoint import Checkpoint, StreamRefused
from muster.spark.streaming.folds import BY_THE_MINUTE, samples_by_the_minute
from muster.spark.streaming.output import BatchFolders
from muster.spark.streaming.stream import default_output, run_stream, stream_sections
from muster.spark.tables import read_table
from tests.spark.arrivals import sample, write_commits, write_file, write_registrations, write_samples
from tests.spark.rows import NOON, at, table

OPTIONS = Options(timezone="Europe/Berlin", price_per_gib=2.0, now=datetime(2027, 1, 1, tzinfo=UTC))


SUMS = frozenset({"groups", "unattributed", "per_bucket"})
"""Sections in which a missing or duplicate row shows."""

Said = Mapping[str, list[tuple[Any, ...]]]


def said_by(sections: Sequence[Section], names: frozenset[str]) -> Said:
    requested = [section for section in sections if not names or section.name in names]
    return {section.name: [tuple(row) for row in section.frame.collect()] for section in requested}


def batch(spark: SparkSession, storage: Path, options: Options = OPTIONS, *, names: frozenset[str] = SUMS) -> Said:
    samples = read_table(spark, storage, SAMPLES, start=options.start, end=options.end)
    return said_by(JOBS["consumption"].sections({SAMPLES: samples}, options), names)


def streamed(spark: SparkSession, storage: Path, options: Options = OPTIONS, *, names: frozenset[str] = SUMS) -> Said:
    return said_by(stream_sections(spark, storage, "consumption", options), names)


def run(spark: SparkSession, storage: Path) -> None:
    run_stream(spark, storage, "consumption", once=True)


def test_files_that_arrive_and_one_that_comes_hours_late(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(3)
    for number, hour in enumerate((0, 1, 0)):  # the last: a dead gateway's spool, recovered by its successor
        write_samples(tmp_path, f"gateway-1-run-{number:08d}", chance, hour=hour)
        run(spark, tmp_path)
    assert (
        len(
            list(
                BatchFolders(default_output(tmp_path, "consumption") / SAMPLES, SAMPLES, BY_THE_MINUTE).path.glob(
                    "batch-*"
                )
            )
        )
        == 3
    )
    every = frozenset[str]()
    assert streamed(spark, tmp_path, names=every) == batch(spark, tmp_path, names=every)
    part = Options(start=NOON + timedelta(hours=1), end=NOON + timedelta(minutes=90), now=OPTIONS.now)
    assert streamed(spark, tmp_path, part) == batch(spark, tmp_path, part)


def test_clocks_that_differ_and_files_of_any_age(spark: SparkSession, tmp_path: Path) -> None:
    """Gateway 0 is a day ahead and on a node that dates its file next year: that makes no other row late."""
    chance = random.Random(10)
    ahead = write_samples(tmp_path, "gateway-0-run-00000001", chance, hour=24)
    next_year = datetime(2027, 5, 1, tzinfo=UTC).timestamp()
    os.utime(ahead, (next_year, next_year))
    for number in (1, 2):
        run(spark, tmp_path)
        write_samples(tmp_path, f"gateway-1-run-{number:08d}", chance)
    run(spark, tmp_path)
    assert streamed(spark, tmp_path) == batch(spark, tmp_path)


def test_a_batch_that_was_written_and_not_noted_is_not_written_twice(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that is killed between the two repeats the batch."""
    chance = random.Random(4)
    write_samples(tmp_path, "gateway-1-run-00000001", chance)
    run(spark, tmp_path)
    forget_that_it_was_done(tmp_path)
    write_samples(tmp_path, "gateway-1-run-00000002", chance)
    run(spark, tmp_path)
    assert streamed(spark, tmp_path) == batch(spark, tmp_path)


def forget_that_it_was_done(storage: Path) -> None:
    noted = default_output(storage, "consumption") / "_checkpoint" / SAMPLES / "commits"
    for name in ("0", ".0.crc"):
        (noted / name).unlink()


def test_a_batch_that_was_half_written_is_written_anew(spark: SparkSession, tmp_path: Path) -> None:
    folders = BatchFolders(tmp_path / SAMPLES, SAMPLES, BY_THE_MINUTE)
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
    folders = BatchFolders(tmp_path, SAMPLES, BY_THE_MINUTE)
    rows = [table(spark, SAMPLES, [sample(chance) for _ in range(20)]) for _ in range(5)]
    for number, each in enumerate(rows):
        folders.write(each, number)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"batch-{number:09d}" for number in (2, 3, 4)),  # those of the last tier stay for current readers
        *(f"tier-{number:09d}" for number in (0, 1)),
    ]
    everything = rows[0].union(rows[1]).union(rows[2]).union(rows[3]).union(rows[4])
    assert in_some_order(folders.read(spark)) == in_some_order(samples_by_the_minute(everything))
    folders.write(rows[1], 1)  # repeated after it was merged
    assert not (tmp_path / "batch-000000001").exists()
    assert in_some_order(folders.read(spark)) == in_some_order(samples_by_the_minute(everything))


def test_a_fold_of_folds_is_the_fold_of_everything(spark: SparkSession) -> None:
    chance = random.Random(6)
    rows = [sample(chance) for _ in range(300)]
    parts = [samples_by_the_minute(table(spark, SAMPLES, half)) for half in (rows[::2], rows[1::2])]
    folded = samples_by_the_minute(parts[0].union(parts[1]))
    assert in_some_order(folded) == in_some_order(samples_by_the_minute(table(spark, SAMPLES, rows)))
    assert folded.count() < 300


def in_some_order(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def test_lag_of_a_stream_is_lag(spark: SparkSession, tmp_path: Path) -> None:
    """Including its verdict on a group whose only member left: the table shows who did."""
    partition = {"topic": "flights", "partition": 0, "epoch": 1}
    commit = {**partition, "offsets_partition": 7, "group": "billing", "kind": "commit", "commits": 1}
    end = {**partition, "log": 0, "log_start_offset": 0, "size_bytes": 0}
    now = NOON + timedelta(seconds=45)
    for number, seconds in enumerate((0, 20)):
        offset, name = 20 * number, f"run-{number:08d}"
        committed = {**commit, "ts": at(seconds), "offset": offset, "lowest": offset, "member_id": "m-1"}
        write_file(tmp_path, COMMITS, f"offsets-7-{name}", [committed])
        write_file(tmp_path, END_OFFSETS, f"log-0-{name}", [{**end, "ts": at(seconds), "log_end_offset": 3 * offset}])
        run_stream(spark, tmp_path, "lag", once=True)
    left = {"ts": at(21), "offsets_partition": 7, "epoch": 1, "number": 1, "group": "billing", "event": "member_left"}
    write_file(tmp_path, GROUP_EVENTS, "offsets-7-run-00000001", [{**left, "members": 0}])
    options = Options(now=now, end=now)
    by_batch = {name: read_table(spark, tmp_path, name, end=now) for name in (COMMITS, END_OFFSETS, GROUP_EVENTS)}
    said = said_by(stream_sections(spark, tmp_path, "lag", options), frozenset())
    assert said == said_by(JOBS["lag"].sections(by_batch, options), frozenset())
    (group,) = said["groups"]
    assert {"billing", 40, "ENDED"} <= set(group)  # 60 written, 20 committed


def test_attribution_of_a_stream_is_attribution(spark: SparkSession, tmp_path: Path) -> None:
    """Row by row: history gives the group by each sample's own time, and drift by its own size."""
    chance = random.Random(11)
    write_registrations(tmp_path)
    for number in (1, 2):
        write_samples(tmp_path, f"gateway-1-run-{number:08d}", chance, rows=300)
        write_commits(tmp_path, f"offsets-7-run-{number:08d}", chance)
        run_stream(spark, tmp_path, "attribution", once=True)
    options = Options(bucket_seconds=45, top=100, now=OPTIONS.now)
    by_batch = {name: read_table(spark, tmp_path, name) for name in JOBS["attribution"].tables}
    said = said_by(stream_sections(spark, tmp_path, "attribution", options), frozenset())
    assert said == said_by(JOBS["attribution"].sections(by_batch, options), frozenset())
    assert {name: len(said[name]) > 3 for name in ("reattributed", "drift", "shares")} == dict.fromkeys(
        ("reattributed", "drift", "shares"), True
    )


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


def test_a_file_of_a_batch_that_has_to_run_again_is_missed_too(spark: SparkSession, tmp_path: Path) -> None:
    file = write_samples(tmp_path, "gateway-1-run-00000001", random.Random(8))
    run(spark, tmp_path)
    forget_that_it_was_done(tmp_path)
    merge(file)
    with pytest.raises(StreamRefused, match=r"gateway-1-run-00000001\.parquet"):
        run(spark, tmp_path)


def test_what_was_merged_before_the_first_start_is_no_reason_to_refuse(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(9)
    merge(write_samples(tmp_path, "gateway-1-run-00000001", chance))
    write_samples(tmp_path, "gateway-1-run-00000002", chance, hour=1, rows=7)
    for _ in range(2):
        run(spark, tmp_path)
    later = Options(start=NOON + timedelta(hours=1), now=OPTIONS.now)
    assert streamed(spark, tmp_path, later) == batch(spark, tmp_path, later)


def test_a_late_file_of_an_hour_that_was_merged_before_is_missed_like_any_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(12)
    merge(write_samples(tmp_path, "gateway-1-run-00000001", chance))
    run(spark, tmp_path)
    merge(write_samples(tmp_path, "gateway-1-run-00000002", chance), "merged-00000002")
    with pytest.raises(StreamRefused, match=r"1 files of samples.*hour=12/gateway-1-run-00000002\.parquet"):
        run(spark, tmp_path)


def merge(file: Path, name: str = "merged-00000001") -> None:
    """Require the state after compaction when the grace time is over."""
    merged = file.with_name(f"{name}.parquet")
    manifest_of(merged).write_bytes(Manifest(files=frozenset({file.name}), at_ms=0).to_json())
    file.rename(merged)


def test_a_file_that_was_merged_and_still_there_at_the_first_start_is_missed_if_it_goes_unread(tmp_path: Path) -> None:
    file = write_samples(tmp_path, "gateway-1-run-00000001", random.Random(13))
    data = file.read_bytes()
    merge(file)
    file.write_bytes(data)
    folder = file.parent.parent.parent
    checkpoint = Checkpoint.open(tmp_path / "checkpoint", tmp_path / "out", [SAMPLES])
    checkpoint.check(folder)
    checkpoint.check(folder)
    file.unlink()
    with pytest.raises(StreamRefused, match=r"gateway-1-run-00000001\.parquet"):
        checkpoint.check(folder)
    checkpoint.release()


def test_one_driver_at_a_time_and_output_and_checkpoint_of_one_stream(tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    held = Checkpoint.open(checkpoint, out, [SAMPLES])
    with pytest.raises(StreamRefused, match="running already"):
        Checkpoint.open(checkpoint, out, [SAMPLES])
    held.release()
    with pytest.raises(StreamRefused, match="do not belong together"):
        Checkpoint.open(checkpoint, tmp_path / "another", [SAMPLES])
    (out / SAMPLES / "batch-000000000").mkdir(parents=True)
    with pytest.raises(StreamRefused, match="do not belong together"):
        Checkpoint.open(tmp_path / "a new one", out, [SAMPLES])
    with pytest.raises(StreamRefused, match="of a stream of samples, not of commits"):
        Checkpoint.open(checkpoint, out, [COMMITS])
    Checkpoint.open(checkpoint, out, [SAMPLES]).release()


def test_requests_that_a_stream_refuses(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamRefused, match="no output of a stream"):
        stream_sections(spark, tmp_path, "consumption", Options())
    default_output(tmp_path, "consumption").mkdir(parents=True)
    with pytest.raises(StreamRefused, match="steps of 60 s, of which 90 s is no multiple"):
        stream_sections(spark, tmp_path, "consumption", Options(bucket_seconds=90))
