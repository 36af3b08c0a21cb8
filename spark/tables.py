"""Reads what the actors recorded under ``<storage>/metrics``."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, IntegerType, StructType

from actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA


def samples_schema() -> StructType:
    """Columns of :data:`actors.tables.schemas.samples.SAMPLES_SCHEMA`, then the folders' ``date`` and ``hour`` (UTC)."""
    return from_arrow_schema(SAMPLES_SCHEMA).add("date", DateType()).add("hour", IntegerType())


def read_samples(spark: SparkSession, storage: Path) -> DataFrame:
    """The table ``samples``; empty if no gateway has written to it yet."""
    folder = storage / "metrics" / SAMPLES
    if not folder.is_dir():
        return spark.createDataFrame([], samples_schema())
    return spark.read.schema(samples_schema()).parquet(str(folder))
