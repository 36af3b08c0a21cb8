"""The log's ends in steps are those that the as-of join gives, for logs that stand still, fall, or begin late."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster.actors.tables.schemas.offsets import END_OFFSETS
from muster.spark.jobs.shared.log_ends import log_ends, log_ends_in_steps, with_log_end_at
from tests.spark.rows import NOON, at, result, table

NOON_MS = int(NOON.timestamp() * 1000)
STEP_MS = 7_000
LAST_MS = NOON_MS // STEP_MS * STEP_MS + 60 * STEP_MS


@pytest.fixture(scope="module")
def ends(spark: SparkSession) -> DataFrame:
    chance = random.Random(5)
    rows: list[dict[str, Any]] = []
    for partition in range(6):
        log_end, second = chance.randrange(50), float(chance.randrange(60))
        for _ in range(chance.randrange(1, 25)):
            appended = chance.choice((None, chance.uniform(0, 12)))
            rows.append(
                {
                    "ts": at(second),
                    "topic": "t",
                    "partition": partition,
                    "epoch": 1,
                    "log_start_offset": 0,
                    "log_end_offset": log_end,
                    "last_append": None if appended is None else at(second - appended),
                }
            )
            second += chance.choice((0, 1, 10, 10, 40))
            log_end = 3 if chance.random() < 0.1 else log_end + chance.choice((0, 1, 30))
    return log_ends(table(spark, END_OFFSETS, rows), flush_ms=10_000).cache()


def test_ends_in_steps_are_those_at_each_step(spark: SparkSession, ends: DataFrame) -> None:
    from_ms = NOON_MS // STEP_MS * STEP_MS
    grid = spark.sql(f"SELECT {from_ms}L AS from_ms, {LAST_MS}L AS to_ms, {STEP_MS}L AS step_ms")
    steps = spark.sql(f"SELECT explode(sequence({from_ms}L, {LAST_MS}L, {STEP_MS}L)) AS at_ms")
    every = ends.select("topic", "partition").distinct().crossJoin(steps)
    columns = ("partition", "at_ms", "log_end_then")
    expected = result(with_log_end_at(every, ends, "at_ms").where("log_end_then IS NOT NULL"), *columns)
    assert len(expected) > 200
    assert sorted(result(log_ends_in_steps(ends, grid), *columns)) == sorted(expected)
