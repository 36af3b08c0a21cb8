from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muster.spark import command, sizing
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Options
from muster.spark.request import Request
from muster.spark.sizing import Size, size_of

HOUR_13 = datetime(2026, 5, 1, 13, tzinfo=UTC)


def put(storage: Path, hour: int, size_bytes: int, name: str = "gateway-1-a-1.parquet", table: str = "samples") -> None:
    file = storage / "metrics" / table / "date=2026-05-01" / f"hour={hour}" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as sparse:
        sparse.truncate(size_bytes)


def test_only_the_requested_hours_count(tmp_path: Path) -> None:
    put(tmp_path, 12, 1 << 30)
    put(tmp_path, 13, 1 << 20)
    (tmp_path / "metrics/samples/lost+found/hour=x").mkdir(parents=True)
    small = Size(shuffle_partitions=1, short_job=True)
    assert size_of(tmp_path, ["samples", "commits"], HOUR_13, None, cores=2) == small
    large = Size(shuffle_partitions=64, short_job=False)
    assert size_of(tmp_path, ["samples"], None, HOUR_13, cores=2) == large
    assert size_of(tmp_path, ["samples"], None, HOUR_13.replace(hour=12), cores=2) == small
    assert size_of(tmp_path, ["samples"], None, None, cores=90).shuffle_partitions == 90


def test_what_a_job_reads_from_the_first_row_on_counts_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only commits were many, an hour before the requested time: lag reads it, placement does not."""
    put(tmp_path, 12, 1 << 30, table="commits")
    request = Request(storage=tmp_path, jobs=(), options=Options(start=HOUR_13))
    partitions: list[int] = []
    monkeypatch.setattr(command, "local_session", lambda shuffle_partitions, **_: partitions.append(shuffle_partitions))
    for name in ("lag", "placement"):
        command.session_for(request, [JOBS[name]])
    assert partitions == [64, 1]


def test_what_is_being_written_does_not_count(tmp_path: Path) -> None:
    put(tmp_path, 12, 1 << 30, ".gateway-1-a-1.parquet.partial")
    assert size_of(tmp_path, ["samples"], None, None, cores=1).short_job


def test_many_rows_in_few_bytes_are_no_short_job(tmp_path: Path) -> None:
    for hour, rows in ((12, 400_000), (13, 100_000), (14, 1)):
        put(tmp_path, hour, 0)
        for file in (tmp_path / "metrics").rglob(f"hour={hour}/*.parquet"):
            pq.write_table(pa.table({"offset": pa.array([7]).take(pa.array([0] * rows))}), file)
    assert size_of(tmp_path, ["samples"], None, HOUR_13.replace(hour=14), cores=2).short_job
    more = Size(shuffle_partitions=2, short_job=False)
    assert size_of(tmp_path, ["samples"], None, None, cores=2) == more


def test_a_file_with_a_roll_up_counts_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GiB of samples has a roll-up of 16 MiB, which unfolds to four times as much; half a GiB has none."""
    put(tmp_path, 12, 1 << 30)
    put(tmp_path, 12, 16 << 20, table="_rollups/samples")
    rolled_up = tmp_path / "metrics/samples/date=2026-05-01/hour=12/gateway-1-a-1.parquet"
    rollup = tmp_path / "metrics/_rollups/samples/date=2026-05-01/hour=12/gateway-1-a-1.parquet"
    monkeypatch.setattr(sizing, "rollup_of", lambda file: rollup if file == rolled_up else None)
    assert size_of(tmp_path, ["samples"], None, None, cores=2).shuffle_partitions == 64
    found = size_of(tmp_path, ["samples"], None, None, cores=2, rolled_up={"samples"})
    assert found == Size(shuffle_partitions=4, short_job=False)
    put(tmp_path, 13, 1 << 29)
    found = size_of(tmp_path, ["samples"], None, None, cores=2, rolled_up={"samples"})
    assert found == Size(shuffle_partitions=36, short_job=False)


def test_roll_ups_count_only_where_jobs_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []

    def sized(*_: object, rolled_up: object, **__: object) -> Size:
        taken.append(rolled_up)
        return Size(shuffle_partitions=1, short_job=True)

    monkeypatch.setattr(command, "local_session", lambda **_: None)
    monkeypatch.setattr(sizing, "size_of", sized)
    for bucket_seconds in (60, 90):
        request = Request(storage=tmp_path, jobs=(), options=Options(bucket_seconds=bucket_seconds))
        command.session_for(request, [JOBS["consumption"], JOBS["lag"]])
    assert taken == [{"samples"}, ()]
