"""Small tables, worked out by hand."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.consumption import per_bucket, per_group, per_partition, unattributed
from spark.tables import samples_schema

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def table(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([_row(**row) for row in rows], samples_schema())


def _row(first: int = 0, last: int = 9, *, at_s: float = 0, **changes: Any) -> tuple[Any, ...]:
    ts = NOON + timedelta(seconds=at_s)
    values: dict[str, Any] = {
        "ts": ts,
        "last_ts": ts,
        "gateway": 1,
        "group": "billing",
        "member_id": "m-1",
        "client_id": "rdkafka",
        "host": "127.0.0.1",
        "topic": "flights",
        "partition": 0,
        "evidence": "assignment",
        "reason": None,
        "messages": last - first + 1,
        "bytes": 100 * (last - first + 1),
        "fetches": 1,
        "first_offset": first,
        "last_offset": last,
        "date": ts.date(),
        "hour": ts.hour,
    } | changes
    return tuple(values[name] for name in samples_schema().names)


def collected(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select(*columns).collect()]


def test_per_minute_and_partition(spark: SparkSession) -> None:
    samples = table(
        spark,
        {"first": 0, "last": 9, "at_s": 1},
        {"first": 10, "last": 19, "at_s": 59.999},
        {"first": 20, "last": 24, "at_s": 60},
        {"first": 0, "last": 2, "at_s": 2, "partition": 1},
        {"first": 0, "last": 4, "at_s": 3, "group": "archive"},
    )
    rows = collected(per_bucket(samples), "bucket", "group", "topic", "partition", "messages", "bytes")
    minute_0, minute_1 = (NOON.replace(tzinfo=None) + timedelta(minutes=n) for n in (0, 1))
    assert [(_utc(bucket), *rest) for bucket, *rest in rows] == [
        (minute_0, "archive", "flights", 0, 5, 500),
        (minute_0, "billing", "flights", 0, 20, 2000),
        (minute_0, "billing", "flights", 1, 3, 300),
        (minute_1, "billing", "flights", 0, 5, 500),
    ]


def _utc(moment: datetime) -> datetime:
    """Spark hands naive local times to Python."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def test_buckets_of_five_seconds_and_none_of_zero(spark: SparkSession) -> None:
    samples = table(spark, {"at_s": 4.9}, {"at_s": 5}, {"at_s": 9.9})
    assert collected(per_bucket(samples, seconds=5), "messages") == [(10,), (20,)]
    with pytest.raises(ValueError, match="second"):
        per_bucket(samples, seconds=0)


def test_a_batch_that_a_fetch_enters_in_its_middle_is_sent_again_in_part(spark: SparkSession) -> None:
    samples = table(spark, {"first": 0, "last": 99}, {"first": 60, "last": 149, "messages": 100})
    assert collected(per_partition(samples), "messages", "distinct", "resent") == [(200, 150, 50)]


def test_overlaps_gaps_and_nested_runs(spark: SparkSession) -> None:
    samples = table(
        spark,
        {"first": 0, "last": 99},
        {"first": 10, "last": 19},  # inside
        {"first": 50, "last": 149},  # overlaps
        {"first": 200, "last": 209},  # after a gap
        {"first": 205, "last": 207},  # inside, after a shorter reach than the first run's
        {"first": 0, "last": 9, "partition": 1},
        {"first": 0, "last": 9, "partition": 1},
        {"first": 0, "last": 9, "group": "archive"},
    )
    by_partition = per_partition(samples)
    assert collected(by_partition, "group", "partition", "messages", "distinct", "resent") == [
        ("archive", 0, 10, 10, 0),
        ("billing", 0, 223, 160, 63),
        ("billing", 1, 20, 10, 10),
    ]
    assert collected(per_group(by_partition), "group", "messages", "bytes", "distinct", "resent") == [
        ("archive", 10, 1000, 10, 0),
        ("billing", 243, 24300, 170, 73),
    ]


def test_distinct_is_the_union_of_any_intervals(spark: SparkSession) -> None:
    chance = random.Random(7)
    rows, expected = [], {}
    for group in (f"g-{n:02}" for n in range(20)):
        seen: set[int] = set()
        for _ in range(30):
            first = chance.randrange(200)
            last = first + chance.randrange(30)
            rows.append({"first": first, "last": last, "group": group})
            seen.update(range(first, last + 1))
        expected[group] = len(seen)
    assert dict(collected(per_group(per_partition(table(spark, *rows))), "group", "distinct")) == expected


def test_unattributed_by_reason_and_never_among_the_groups(spark: SparkSession) -> None:
    nobody = {"group": None, "member_id": None, "evidence": "none"}
    samples = table(
        spark,
        {},
        {"first": 10, "last": 19, "reason": "no_group", **nobody},
        {"first": 10, "last": 14, "reason": "no_group", **nobody},
        {"first": 0, "last": 0, "reason": "ambiguous", "client_id": None, **nobody},
    )
    assert collected(unattributed(samples), "reason", "client_id", "messages", "bytes") == [
        ("ambiguous", None, 1, 100),
        ("no_group", "rdkafka", 15, 1500),
    ]
    assert collected(per_group(per_partition(samples)), "group", "messages") == [("billing", 10)]


def test_an_empty_table_gives_empty_results(spark: SparkSession) -> None:
    samples = table(spark)
    by_partition = per_partition(samples)
    for frame in (per_bucket(samples), by_partition, per_group(by_partition), unattributed(samples)):
        assert frame.collect() == []
