"""Jobs give the same rows with roll-ups and without, in any state of compaction and for any requested time."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.actors.tables.compaction import Policy, compact
from muster.actors.tables.rollups.files import FOLDER
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs import JOBS
from muster.spark.jobs.consumption import CONSUMER
from muster.spark.jobs.job import Options
from muster.spark.jobs.shared.runs import merged_runs
from muster.spark.jobs.shared.sent import NOT_ROLLED_UP, ROLLED_UP, Sent
from muster.spark.result import tables_of
from muster.spark.rollups import read_samples, read_sent
from tests.spark import rows
from tests.spark.arrivals import write_commits, write_registrations, write_samples
from tests.tables.events import HOUR_MS, NOON_MS
from tests.tables.samples import ROW, put_samples, samples

NOON = datetime.fromtimestamp(NOON_MS / 1000, UTC)
HOURS = 3
DUE_MS = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp() * 1000)
LATE_MS = DUE_MS - NOON_MS - HOURS * HOUR_MS + 1
KEYS = ["gateway", *CONSUMER, "topic", "partition", "reason"]
TIMES = st.none() | st.integers(-10, 60 * HOURS + 10).map(lambda minutes: NOON + timedelta(minutes=minutes))
STATES = st.lists(
    st.tuples(st.lists(samples(hours=HOURS), min_size=1, max_size=8), st.sampled_from(["left", "compacted", "late"])),
    min_size=1,
    max_size=3,
)


def compacted(storage: Path, *, delay_ms: int = 0, times: int = 1) -> None:
    for number in range(times):
        outcome = compact(storage / "metrics", Policy(delay_ms, 0, None), lambda number=number: DUE_MS + number)
        assert outcome is not None
        assert not outcome.problems


def put_state(storage: Path, state: list[tuple[list[dict[str, Any]], str]]) -> None:
    """Files one after another, with compactions between them; ``late``: the hours but the last are due."""
    for number, (held, then) in enumerate(state):
        put_samples(storage, f"gateway-{number}", held)
        if then != "left":
            compacted(storage, delay_ms=0 if then == "compacted" else LATE_MS)


def sums(frame: DataFrame, *keys: str) -> DataFrame:
    return frame.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in frame.columns if name not in keys))


def gist(sent: Sent) -> dict[str, list[str]]:
    """All that jobs take from what was sent, in an order of its own."""
    runs = merged_runs(sent.runs(*KEYS), KEYS, F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    frames = {
        "minutes": sums(sent.steps(*KEYS, seconds=60), "bucket", *KEYS),
        "hours": sums(sent.steps("group", seconds=3600), "bucket", "group"),
        "quarters": sums(sent.steps(F.upper("group").alias("g"), "topic", seconds=900), "bucket", "g", "topic"),
        "totals": sums(sent.totals("group"), "group"),
        "runs": runs.select(*sorted(runs.columns)),
        "blocks": sums(sent.blocks("topic", "partition", "reason"), "topic", "partition", "reason", "block"),
    }
    return {name: sorted(map(str, frame.collect())) for name, frame in frames.items()}


@settings(max_examples=15, deadline=None)
@given(state=STATES, start=TIMES, end=TIMES)
def test_what_was_sent_is_the_same_with_roll_ups_and_without(
    spark: SparkSession, state: list[tuple[list[dict[str, Any]], str]], start: datetime | None, end: datetime | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        storage = Path(name)
        put_state(storage, state)
        with_rollups = read_sent(spark, storage, start=start, end=end)
        without = read_samples(spark, storage, start=start, end=end)
        assert gist(Sent.of(with_rollups)) == gist(Sent.of(without))
        one, other = (sorted(map(str, tables[SAMPLES].collect())) for tables in (with_rollups, without))
        assert one == other


def test_only_whole_hours_are_taken_from_roll_ups(spark: SparkSession, tmp_path: Path) -> None:
    storage = tmp_path / "a[b]{c"  # a pattern to Hadoop
    for hour in range(HOURS):
        for number in range(2):
            put_samples(storage, f"gateway-{number}", [{**ROW, "ts": NOON_MS + hour * HOUR_MS, "gateway": number}])
    compacted(storage)
    put_samples(storage, "gateway-2", [{**ROW, "gateway": 2}])
    found = read_sent(spark, storage, start=NOON, end=NOON + timedelta(hours=2, minutes=1))
    assert counted(found) == {SAMPLES: 6 + 1, NOT_ROLLED_UP: 1 + 2, ROLLED_UP: 4}
    assert list(read_sent(spark, storage, start=NOON + timedelta(hours=2, minutes=1))) == [SAMPLES]
    files = [*(storage / "metrics" / FOLDER).rglob("*.parquet")]
    assert len(files) == HOURS
    files[0].unlink()
    files[1].write_bytes(files[2].read_bytes()[:-1])
    assert counted(read_sent(spark, storage)) == {SAMPLES: 7, NOT_ROLLED_UP: 1 + 4, ROLLED_UP: 2}


def counted(tables: Mapping[str, DataFrame]) -> dict[str, int]:
    return {name: frame.count() for name, frame in tables.items()}


def test_steps_that_are_no_whole_minutes_need_the_samples(spark: SparkSession, tmp_path: Path) -> None:
    put_samples(tmp_path, "gateway-1", [ROW])
    compacted(tmp_path)
    for seconds, takes in ((60, True), (300, True), (90, False), (1, False)):
        found = tables_of(JOBS["consumption"], spark, tmp_path, Options(bucket_seconds=seconds))
        assert (ROLLED_UP in found) is takes
    assert ROLLED_UP not in tables_of(JOBS["lag"], spark, tmp_path, Options())


@pytest.mark.parametrize(
    ("job", "zone"), [("consumption", "Asia/Kathmandu"), ("attribution", "UTC"), ("placement", "UTC")]
)
def test_the_result_of_a_job_is_the_same(spark: SparkSession, tmp_path: Path, job: str, zone: str) -> None:
    chance = random.Random(12)
    write_registrations(tmp_path)
    write_commits(tmp_path, "offsets-7-run-00000001", chance, rows=30)
    for hour in range(HOURS):
        for number in range(3):
            write_samples(tmp_path, f"gateway-1-run-{number:08d}", chance, hour=hour)
    options = Options(
        start=rows.NOON + timedelta(minutes=7), now=rows.NOON + timedelta(days=1), timezone=zone, bucket_seconds=120
    )
    before = result_of(spark, tmp_path, job, options)
    compacted(tmp_path)
    write_samples(tmp_path, "gateway-1-run-00000009", chance, hour=1)
    late = result_of(spark, tmp_path, job, options)
    assert late != before
    for file in (tmp_path / "metrics" / FOLDER).rglob("*.parquet"):
        file.unlink()
    assert result_of(spark, tmp_path, job, options) == late


def result_of(spark: SparkSession, storage: Path, job: str, options: Options) -> dict[str, list[str]]:
    spark.catalog.clearCache()  # or frames over the same folders count as the same
    tables = tables_of(JOBS[job], spark, storage, options)
    return {section.name: list(map(str, section.frame.collect())) for section in JOBS[job].sections(tables, options)}
