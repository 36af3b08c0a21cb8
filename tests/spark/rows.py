"""Rows of the actors' tables for tests of jobs: what a test does not name has a default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from actors.tables.schemas import TABLES

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """That long after noon."""
    return NOON + timedelta(seconds=seconds)


def table(spark: SparkSession, name: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """The table of that name with these rows; columns that a row does not name are null."""
    schema = from_arrow_schema(TABLES[name])
    for field in schema.fields:
        field.nullable = True
    return spark.createDataFrame([tuple(row.get(column) for column in schema.names) for row in rows], schema)


def answer(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select(*columns).collect()]
