"""The tables that the actors write under ``<storage>/metrics``, as DataFrames.

:mod:`muster.actors.tables.hours` decides which files of a folder count; :mod:`muster.actors.tables.reading` is the
equivalent for pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, IntegerType, StructType

from muster.actors.tables.footers import check
from muster.actors.tables.hours import MERGED, Hour, Listing, TableDamaged, hours, listing
from muster.actors.tables.reading import folder_of
from muster.actors.tables.schemas import TABLES, TableSchema
from muster.placement.view import UNDO_PREFIX
from muster.spark.bucket import TablesInBucket, bucket_settings, to_ms

__all__ = ["TableDamaged", "bucket_settings", "damage_in", "no_rows", "read_table", "schema_of", "stream_table"]

_ATTEMPTS = 5
_NOT_MERGED = "{[!m]*,m[!e]*,me[!r]*,mer[!g]*,merg[!e]*}.parquet"
_ANY_AGE = "36500d"
_FILE = re.compile(r"file:(?://)?(/\S+?/date=[^/\s]+/hour=[^/\s]+/[^/\s]+?\.parquet)\b")


def schema_of(name: str) -> StructType:
    """Return columns as in :data:`muster.actors.tables.schemas.TABLES`, then ``date`` and ``hour`` (UTC) of the
    folders."""
    return _in_folders(TABLES[name])


def _in_folders(schema: TableSchema) -> StructType:
    return from_arrow_schema(schema.arrow).add("date", DateType()).add("hour", IntegerType())


def read_table(
    spark: SparkSession, storage: Path | str, name: str, *, start: datetime | None = None, end: datetime | None = None
) -> DataFrame:
    """Read the table's rows in [start, end) of its time column, unordered; empty if there are none.

    ``storage``: ``storage.path``, a path or the URI of a bucket, for which the session needs
    :func:`bucket_settings`; then it also raises NotALocation and ObjectStorageError, and only Spark finds
    damaged files.
    Only folders of hours that overlap the range are listed. Columns that an older file does not have are null. Raises
    TableDamaged naming a file that is not a complete Parquet file, or not of this table, or of a newer version of it.
    For files found missing or damaged later, during reading, Spark raises: see :func:`damage_in`. Raises ValueError for
    times without a time zone. The frame can be used for ``metrics.compaction.grace.ms``.
    """
    if isinstance(storage, str):
        frame = _frame_in_bucket(spark, TablesInBucket.of(storage), name, to_ms(start), to_ms(end))
    else:
        frame = _frame(spark, folder_of(storage, name), name, to_ms(start), to_ms(end))
    if frame is None:
        return no_rows(spark, schema_of(name))
    return limited(frame, name, start, end)


def limited(frame: DataFrame, name: str, start: datetime | None, end: datetime | None) -> DataFrame:
    """Return the rows of the table's frame in [start, end) of its time column."""
    time = F.col(TABLES[name].time_column)
    if start is not None:
        frame = frame.where((F.col("date") >= F.lit(start.astimezone(UTC).date())) & (time >= F.lit(start)))
    if end is not None:
        frame = frame.where((F.col("date") <= F.lit(end.astimezone(UTC).date())) & (time < F.lit(end)))
    return frame


def read_paths(spark: SparkSession, folder: Path | str, schema: TableSchema, paths: Sequence[str]) -> DataFrame:
    """Read the rows of these files, or of all files in these folders, which are below ``folder`` by date and hour.

    Without the groups that keep replaced offsets (``UNDO_PREFIX``), which are nobody's.
    """
    options = {"basePath": str(folder), "pathGlobFilter": "*.parquet", "__globPaths__": "false"}
    return _without_undo(spark.read.schema(_in_folders(schema)).options(**options).parquet(*paths))


def _without_undo(frame: DataFrame) -> DataFrame:
    if "group" not in frame.columns:
        return frame
    return frame.where(F.col("group").isNull() | ~F.col("group").startswith(UNDO_PREFIX))


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty frame of that schema. PySpark's own would be read by a Python process, and planned in full."""
    jvm: Any = spark._jvm
    java: Any = spark._jsparkSession
    of_jvm = java.parseDataType(schema.json())
    return DataFrame(java.createDataFrame(jvm.java.util.ArrayList(), of_jvm), spark)


def stream_table(spark: SparkSession, storage: Path, name: str) -> DataFrame:
    """Read the table's rows, as :func:`read_table` does, as a stream: the current ones, then new ones; each file as a
    writer made it, once.

    Merged files are left out, so a stream misses rows that compaction removed before: start it within
    ``metrics.compaction.grace.ms`` of the first rows that it must process, and do not stop it for longer. Raises
    TableDamaged as :func:`read_table` does for the current files. Spark's own maxFileAge would silently leave out files
    whose modification time is a week before the latest one's, and so all files after one with a fast clock.
    """
    folder = folder_of(storage, name)
    folder.mkdir(parents=True, exist_ok=True)
    for hour in hours(folder):
        for file in listing(hour.path).live:
            check(hour.path / file, name)
    source = spark.readStream.schema(schema_of(name))
    return _without_undo(source.options(pathGlobFilter=_NOT_MERGED, maxFileAge=_ANY_AGE).parquet(str(folder)))


def damage_in(error: BaseException) -> TableDamaged | None:
    """Return the damage to a table's file that an error of Spark while reading shows; None if it shows none."""
    text = str(error)
    found = _FILE.search(text)
    if found is None:
        return None
    path = Path(unquote(found[1]))
    if not path.exists():
        return TableDamaged(path, "is gone: it was compacted or expired while it was read; run the job again")
    return TableDamaged(path, "is damaged: muster tables verify shows the damage")


def _frame_in_bucket(
    spark: SparkSession, tables: TablesInBucket, name: str, start_ms: int | None, end_ms: int | None
) -> DataFrame | None:
    """Read the frame from objects by name: what is merged and not yet named lies beside those that count."""
    found = tables.objects(name, start_ms, end_ms)
    return read_paths(spark, tables.folder(name), TABLES[name], tables.paths(found)) if found else None


def _frame(spark: SparkSession, folder: Path, name: str, start_ms: int | None, end_ms: int | None) -> DataFrame | None:
    """Read the frame. Spark lists the folders itself, after us: its list must be valid before and after."""
    for _ in range(_ATTEMPTS):
        found = _listings(folder, start_ms, end_ms)
        paths = [path for hour, held in found for path in _paths(hour, held, name)]
        if not paths:
            return None
        frame = read_paths(spark, folder, TABLES[name], paths)
        if _what_counts(_listings(folder, start_ms, end_ms)) == _what_counts(found):
            return frame
    raise TableDamaged(folder, "is compacted all the time")


def _listings(folder: Path, start_ms: int | None, end_ms: int | None) -> list[tuple[Hour, Listing]]:
    return [(hour, listing(hour.path)) for hour in hours(folder, start_ms, end_ms)]


def _paths(hour: Hour, held: Listing, name: str) -> list[str]:
    """Return the folder if all its files count, which is cheapest for Spark; else the files that do."""
    for file in held.live:
        check(hour.path / file, name)
    if held.live and not held.superseded:
        return [str(hour.path)]
    return [str(hour.path / file) for file in held.live]


def _what_counts(found: Sequence[tuple[Hour, Listing]]) -> list[tuple[Path, list[str], Listing]]:
    """Return the files that count, in hours with more than files as their writers made them; such may be added at any
    time."""
    merged = ((hour.path, [name for name in held.live if name.startswith(MERGED)], held) for hour, held in found)
    return [
        (path, names, replace(held, live=())) for path, names, held in merged if names or held != Listing(held.live)
    ]
