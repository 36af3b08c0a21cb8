"""Rows of the actors' tables for tests of jobs: what a test omits has a default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.actors.tables.schemas import TABLES
from muster.spark.jobs.job import Section

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the time that long after noon."""
    return NOON + timedelta(seconds=seconds)


def table(spark: SparkSession, name: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return the table of that name with these rows; columns that a row omits are null."""
    schema = from_arrow_schema(TABLES[name].arrow)
    for field in schema.fields:
        field.nullable = True
    return spark.createDataFrame([tuple(row.get(column) for column in schema.names) for row in rows], schema)


def nothing(spark: SparkSession, name: str) -> DataFrame:
    """Return the table of that name without rows, which Spark knows before it plans: the result costs little."""
    return table(spark, name, []).limit(0)


def result(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Plans and runs the frame; for several results, collect it once and use :func:`picked`."""
    return [tuple(row) for row in frame.select(*columns).collect()]


def picked(rows: Iterable[Mapping[str, Any] | Row], *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of collected rows."""
    return [tuple(row[column] for column in columns) for row in rows]


def collected(sections: Iterable[Section], *names: str) -> dict[str, list[Row]]:
    """Return the rows of the sections of these names, each run once."""
    return {section.name: section.frame.collect() for section in sections if section.name in names}
