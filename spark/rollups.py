"""Samples and their roll-ups (:mod:`muster.actors.tables.rollups.files`) as the tables of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from muster.actors.tables.footers import check
from muster.actors.tables.hours import Hour, hours, listing
from muster.actors.tables.reading import folder_of
from muster.actors.tables.rollups.files import rollup_of, root_of_rollups
from muster.actors.tables.schemas.minutes import MINUTES_SCHEMA
from muster.actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA
from muster.spark.bucket import to_ms
from muster.spark.jobs.shared.sent import NOT_ROLLED_UP, ROLLED_UP
from muster.spark.tables import limited, no_rows, read_paths, read_table, schema_of


def read_samples(
    spark: SparkSession, storage: Path | str, *, start: datetime | None = None, end: datetime | None = None
) -> dict[str, DataFrame]:
    """Read the table ``samples`` by its name, as :func:`muster.spark.tables.read_table` does."""
    return {SAMPLES: read_table(spark, storage, SAMPLES, start=start, end=end)}


def read_sent(
    spark: SparkSession, storage: Path, *, start: datetime | None = None, end: datetime | None = None
) -> dict[str, DataFrame]:
    """Read samples as :func:`read_samples`; if files of whole hours in [start, end) have roll-ups, also these as
    :data:`ROLLED_UP`, and the samples of all other files as :data:`NOT_ROLLED_UP`. All three are of the same files."""
    folder = folder_of(storage, SAMPLES)
    first_ms, end_ms = to_ms(start), to_ms(end)
    found = list(_files(hours(folder, first_ms, end_ms)))
    rollups = {
        path: rollup
        for hour, path in found
        if (first_ms is None or first_ms <= hour.start_ms) and (end_ms is None or hour.end_ms <= end_ms)
        if (rollup := rollup_of(path)) is not None
    }
    if not rollups:
        return read_samples(spark, storage, start=start, end=end)
    others = _read(spark, folder, [path for _, path in found if path not in rollups])
    others = limited(others, SAMPLES, start, end)
    rolled_up = _read(spark, folder, list(rollups))
    return {
        SAMPLES: others.unionByName(rolled_up),
        NOT_ROLLED_UP: others,
        ROLLED_UP: read_paths(spark, root_of_rollups(folder), MINUTES_SCHEMA, [*map(str, rollups.values())]),
    }


def _files(found: Iterable[Hour]) -> Iterable[tuple[Hour, Path]]:
    for hour in found:
        for name in listing(hour.path).live:
            check(hour.path / name, SAMPLES)
            yield hour, hour.path / name


def _read(spark: SparkSession, folder: Path, files: Sequence[Path]) -> DataFrame:
    if not files:
        return no_rows(spark, schema_of(SAMPLES))
    return read_paths(spark, folder, SAMPLES_SCHEMA, [str(path) for path in files])
