"""Small tables, computed by hand."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.demo.consumption import (
    BUCKET_SECONDS,
    Consumption,
    GatewayTotal,
    GroupPartition,
    GroupTotal,
    Sent,
    Unattributed,
)
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.consumption import (
    JOB,
    chargeback,
    local_rates,
    partitions_of,
    per_consumer,
    per_consumer_and_partition,
    per_gateway,
    per_group,
    per_partition,
    rates,
    sections,
    sent_per_step,
    total,
    unattributed,
)
from muster.spark.jobs.job import Options
from muster.spark.render.showing import to_json
from muster.spark.result import run_job
from muster.spark.tables import read_table, schema_of
from tests.spark.arrivals import write_samples
from tests.spark.rows import NOON

LATER = datetime(2027, 1, 1, tzinfo=UTC)


def table(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([_row(**row) for row in rows], schema_of(SAMPLES))


def _row(first: int = 0, last: int = 9, *, at_s: float = 0, **changes: Any) -> tuple[Any, ...]:
    ts = NOON + timedelta(seconds=at_s)
    values: dict[str, Any] = {
        "ts": ts,
        "last_ts": changes.get("ts", ts),
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
        "control_records": 0,
        "aborted_records": 0,
        "date": ts.date(),
        "hour": ts.hour,
    } | changes
    return tuple(values[name] for name in schema_of(SAMPLES).names)


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
    keys = ("group", "topic", "partition")
    frame = rates(sent_per_step(samples), keys, seconds=60, options=Options(now=LATER))
    rows = collected(frame, "bucket", *keys, "messages", "bytes")
    minute_0, minute_1 = (NOON.replace(tzinfo=None) + timedelta(minutes=n) for n in (0, 1))
    assert [(_utc(bucket), *rest) for bucket, *rest in rows] == [
        (minute_0, "archive", "flights", 0, 5, 500),
        (minute_0, "billing", "flights", 0, 20, 2000),
        (minute_0, "billing", "flights", 1, 3, 300),
        (minute_1, "billing", "flights", 0, 5, 500),
    ]


def _utc(moment: datetime) -> datetime:
    """Spark returns naive local times to Python."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def test_buckets_of_five_seconds_and_none_of_zero(spark: SparkSession) -> None:
    samples = table(spark, {"at_s": 4.9}, {"at_s": 5}, {"at_s": 9.9})
    assert sorted(collected(sent_per_step(samples, seconds=5), "messages")) == [(10,), (20,)]
    with pytest.raises(ValueError, match="second"):
        sent_per_step(samples, seconds=0)


def test_per_gateway_and_group(spark: SparkSession) -> None:
    """Unattributed bytes are a row without a group."""
    samples = table(
        spark,
        {"at_s": 1},
        {"at_s": 70, "member_id": "m-2", "partition": 3},
        {"gateway": 2, "last": 2},
        {"gateway": 2, "last": 4, "group": None, "member_id": None, "evidence": "none", "reason": "unknown"},
    )
    rows = collected(per_gateway(sent_per_step(samples)), "gateway", "group", "messages", "bytes")
    assert rows == [(1, "billing", 20, 2000), (2, None, 5, 500), (2, "billing", 3, 300)]


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
        {"first": 205, "last": 207},  # inside, with a shorter reach than the first run
        {"first": 0, "last": 9, "partition": 1},
        {"first": 0, "last": 9, "partition": 1},
        {"first": 0, "last": 9, "group": "archive"},
        {"first": 0, "last": 9, "group": "compacted", "messages": 4},
    )
    by_partition = per_partition(samples)
    assert collected(by_partition, "group", "partition", "messages", "distinct", "resent") == [
        ("archive", 0, 10, 10, 0),
        ("billing", 0, 223, 160, 63),
        ("billing", 1, 20, 10, 10),
        ("compacted", 0, 4, 10, 0),
    ]
    assert collected(per_group(by_partition), "group", "messages", "bytes", "distinct", "resent") == [
        ("archive", 10, 1000, 10, 0),
        ("billing", 243, 24300, 170, 73),
        ("compacted", 4, 1000, 10, 0),
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
    for frame in (sent_per_step(samples), by_partition, per_group(by_partition), unattributed(samples)):
        assert frame.collect() == []


def test_a_day_has_the_hours_that_its_zone_gives_it(spark: SparkSession) -> None:
    """Clocks in Berlin are set forward at 01:00 UTC of 2026-03-29 and back at 01:00 UTC of 2026-10-25."""
    samples = table(
        spark,
        {"ts": datetime(2026, 3, 28, 23, 30, tzinfo=UTC)},  # 00:30 of the short day
        {"ts": datetime(2026, 3, 29, 21, 59, tzinfo=UTC)},  # its last minute
        {"ts": datetime(2026, 3, 29, 22, 0, tzinfo=UTC)},  # the next day
        {"ts": datetime(2026, 10, 24, 22, 0, tzinfo=UTC)},  # the first minute of the long one
        {"ts": datetime(2026, 10, 25, 22, 59, tzinfo=UTC)},
        {"ts": datetime(2026, 10, 25, 23, 0, tzinfo=UTC)},
    )
    days = local_rates(sent_per_step(samples), ["group"], "day", Options(timezone="Europe/Berlin", now=LATER))
    rows = collected(days, "bucket", "local_time", "messages", "bytes", "rate_bytes_per_second")
    assert [(_utc(bucket), *rest) for bucket, *rest in rows] == [
        (datetime(2026, 3, 28, 23), "2026-03-29 00:00 +01:00", 20, 2000, 2000 / (23 * 3600)),
        (datetime(2026, 3, 29, 22), "2026-03-30 00:00 +02:00", 10, 1000, 1000 / (24 * 3600)),
        (datetime(2026, 10, 24, 22), "2026-10-25 00:00 +02:00", 20, 2000, 2000 / (25 * 3600)),
        (datetime(2026, 10, 25, 23), "2026-10-26 00:00 +01:00", 10, 1000, 1000 / (24 * 3600)),
    ]


def test_the_hour_that_comes_twice_is_two_and_the_one_that_is_skipped_none(spark: SparkSession) -> None:
    samples = table(
        spark,
        {"ts": datetime(2026, 3, 29, 0, 59, tzinfo=UTC)},
        {"ts": datetime(2026, 3, 29, 1, 0, tzinfo=UTC)},
        {"ts": datetime(2026, 10, 25, 0, 30, tzinfo=UTC)},
        {"ts": datetime(2026, 10, 25, 1, 30, tzinfo=UTC)},
    )
    hours = local_rates(sent_per_step(samples), ["group"], "hour", Options(timezone="Europe/Berlin", now=LATER))
    assert collected(hours, "local_time", "messages") == [
        ("2026-03-29 01:00 +01:00", 10),
        ("2026-03-29 03:00 +02:00", 10),
        ("2026-10-25 02:00 +02:00", 10),
        ("2026-10-25 02:00 +01:00", 10),
    ]


@pytest.mark.parametrize(
    ("zone", "at", "begins", "label"),
    [
        ("Asia/Kolkata", datetime(2026, 5, 1, 12, 20), datetime(2026, 5, 1, 11, 30), "2026-05-01 17:00 +05:30"),
        ("America/St_Johns", datetime(2026, 1, 1, 12, 20), datetime(2026, 1, 1, 11, 30), "2026-01-01 08:00 -03:30"),
    ],
)
def test_hours_of_zones_that_are_half_an_hour_off(
    spark: SparkSession, zone: str, at: datetime, begins: datetime, label: str
) -> None:
    sent = sent_per_step(table(spark, {"ts": at.replace(tzinfo=UTC)}))
    (row,) = collected(local_rates(sent, ["group"], "hour", Options(timezone=zone, now=LATER)), "bucket", "local_time")
    assert (_utc(row[0]), row[1]) == (begins, label)


def test_a_day_whose_midnight_is_skipped_begins_at_one(spark: SparkSession) -> None:
    """Clocks in Cairo go from 23:59 of 2026-04-23 to 01:00 of the 24th, at 22:00 UTC."""
    sent = sent_per_step(table(spark, {"ts": datetime(2026, 4, 24, 12, tzinfo=UTC)}))
    days = local_rates(sent, ["group"], "day", Options(timezone="Africa/Cairo", now=LATER))
    assert collected(days, "local_time", "rate_messages_per_second") == [("2026-04-24 01:00 +03:00", 10 / (23 * 3600))]


def test_rates_are_of_the_part_of_the_requested_time_that_has_passed(spark: SparkSession) -> None:
    sent = sent_per_step(table(spark, {"at_s": 30}, {"at_s": 60}, {"at_s": 200}, {"at_s": 1000}))
    options = Options(start=NOON + timedelta(seconds=20), end=LATER, now=NOON + timedelta(seconds=210))
    rows = collected(rates(sent, ["group"], seconds=60, options=options), "messages", "rate_messages_per_second")
    ahead_of_our_clock = 10 / 60
    assert rows == [(10, 10 / 40), (10, 10 / 60), (10, 10 / 30), (10, ahead_of_our_clock)]
    ended = Options(end=NOON + timedelta(seconds=90), now=NOON + timedelta(days=1))
    assert collected(rates(sent, [], seconds=60, options=ended), "rate_messages_per_second")[1] == (10 / 30,)


def test_chargeback_shows_what_is_unattributed_and_does_not_spread_it(spark: SparkSession) -> None:
    gib = 1 << 30
    samples = table(
        spark,
        {"bytes": 3 * gib},
        {"bytes": 4 * gib, "group": "archive"},
        {"bytes": gib, "group": None, "reason": "no_group"},
    )
    names = ("group", "bytes", "gib", "share_percent", "cost")
    assert collected(chargeback(samples, 0.25), *names) == [
        ("archive", 4 * gib, 4.0, 50.0, 1.0),
        ("billing", 3 * gib, 3.0, 37.5, 0.75),
        (None, gib, 1.0, 12.5, 0.25),
    ]
    assert collected(chargeback(samples, None), "cost") == [(None,)] * 3
    assert collected(total(chargeback(samples, 0.25)), "groups", "group_bytes", "bytes", "cost") == [
        (2, 7 * gib, 8 * gib, 2.0)
    ]


def test_the_consumer_that_reads_everything_twice_and_the_one_that_reads_the_most_are_named(
    spark: SparkSession,
) -> None:
    chance = random.Random(11)
    rows: list[dict[str, Any]] = []
    for number in range(40):
        consumer = {"group": f"g-{number % 8}", "member_id": f"m-{number}", "partition": number}
        last = chance.randrange(500, 900)
        twice, most = number == 23, number == 6
        for pass_ in range(2 if twice else 1):
            for first in range(0, last, 50):
                rows.append({**consumer, "first": first, "last": first + 49, "at_s": 3600 * pass_ + first})
        if most:
            rows.append({**consumer, "first": 10_000, "last": 29_999})
        if chance.random() < 0.5:
            rows.append({**consumer, "first": 0, "last": 9, "at_s": 60})
    by_name = {section.name: section.frame for section in sections({SAMPLES: table(spark, *rows)}, Options(top=3))}
    assert collected(by_name["resent"], "group", "member_id", "resent_percent")[0] == ("g-7", "m-23", 100.0)
    assert collected(by_name["top_consumers"], "member_id")[0] == ("m-6",)
    assert collected(by_name["chargeback"], "group")[0] == ("g-6",)
    total = sum(row["last"] - row["first"] + 1 for row in rows)
    for name in ("groups", "chargeback", "per_bucket", "per_hour", "per_day", "partitions"):
        assert sum(messages for (messages,) in collected(by_name[name], "messages")) == total, name


def test_two_members_that_were_sent_the_same_are_two_consumers_and_one_group(spark: SparkSession) -> None:
    runs = per_consumer_and_partition(table(spark, {}, {"member_id": "m-2", "last": 14}))
    consumers = collected(per_consumer(runs), "member_id", "partitions", "messages", "distinct", "resent")
    assert sorted(consumers) == [("m-1", 1, 10, 10, 0), ("m-2", 1, 15, 15, 0)]
    assert collected(partitions_of(runs), "messages", "distinct", "resent") == [(25, 15, 10)]


def test_a_query_about_one_group_returns_that_group_only(spark: SparkSession) -> None:
    samples = table(spark, {}, {"group": "archive"}, {"group": None, "reason": "no_group"})
    result = sections({SAMPLES: samples}, Options(groups=frozenset({"archive"})))
    assert {row.group for section in result for row in section.frame.collect() if "group" in row} == {"archive"}


def test_the_demo_reads_what_the_command_writes(spark: SparkSession, tmp_path: Path) -> None:
    samples = table(spark, {"first": 0, "last": 9, "at_s": 61}, {"group": None, "reason": "no_group", "last": 0})
    options = Options(now=LATER, bucket_seconds=BUCKET_SECONDS)
    result = run_job(JOB, spark, tmp_path, options, tables={SAMPLES: samples})
    assert Consumption.from_json(to_json([result], options)) == Consumption(
        sent=(
            Sent(bucket=NOON, group=None, bytes=100),
            Sent(bucket=NOON + timedelta(seconds=60), group="billing", bytes=1000),
        ),
        partitions=(GroupPartition(group="billing", topic="flights", partition=0, messages=10, bytes=1000),),
        groups=(GroupTotal(group="billing", messages=10, bytes=1000, distinct=10, resent=0),),
        gateways=(
            GatewayTotal(gateway=1, group=None, messages=1, bytes=100),
            GatewayTotal(gateway=1, group="billing", messages=10, bytes=1000),
        ),
        unattributed=(
            Unattributed(
                reason="no_group", topic="flights", client_id="rdkafka", host="127.0.0.1", messages=1, bytes=100
            ),
        ),
    )


def test_only_the_folders_and_columns_that_are_needed_are_read(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(1)
    for hour in range(3):
        write_samples(tmp_path, "gateway-0-run-00000001", chance, hour=hour, rows=3)
    start, end = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
    samples = read_table(spark, tmp_path, SAMPLES, start=start, end=end)
    plan = physical_plan(chargeback(samples, None))
    assert set(read_columns(plan)) == {"ts", "group", "messages", "bytes"}
    assert "date#" in re.findall(r"PartitionFilters: \[(.*)\]", plan)[0]
    assert [file.split("/")[-2] for file in samples.inputFiles()] == ["hour=13"]
    of_one_group = physical_plan(unattributed(samples))
    assert set(read_columns(of_one_group)) == {
        "ts", "group", "reason", "topic", "client_id", "host", "messages", "bytes",
    }  # fmt: skip
    assert "IsNull(group)" in re.findall(r"PushedFilters: \[(.*)\]", of_one_group)[0]


def physical_plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().explainString(explain_mode(frame)))


def explain_mode(frame: DataFrame) -> Any:
    jvm: Any = frame.sparkSession._jvm
    return jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")


def read_columns(plan: str) -> list[str]:
    (schema,) = re.findall(r"ReadSchema: struct<(.*)>", plan)
    return [column.split(":")[0] for column in schema.split(",")]
