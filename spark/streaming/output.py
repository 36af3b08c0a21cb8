"""The output of a stream: one folder per micro-batch, complete or absent, and written exactly once.

After a crash, Spark runs a micro-batch again, with the same id over the same files. An existing folder is therefore
complete and has the same content: the second run leaves it unchanged. Every :data:`TIER` batches become one folder, so
that their number stays small; readers prefer it, and the single ones are removed with the next, an hour or more later::

    batch-000000255      of one batch
    tier-000000000       of the batches 0 to 255
    .batch-000000256     being written
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from muster.spark.out import require_parts
from muster.spark.streaming.folds import Fold, folded_schema
from muster.spark.tables import no_rows

TIER = 256
"""Number of batches that are merged."""

_NAME = re.compile(r"(batch|tier)-(\d{9,})\Z")


@dataclass(frozen=True, slots=True)
class BatchFolders:
    """The folded rows of one table, below ``path``."""

    path: Path
    table: str
    fold: Fold

    def write(self, rows: DataFrame, batch: int) -> None:
        """Fold the rows of a micro-batch and store them; no effect if that was done before. Raises OSError."""
        tiers, batches = self._numbers()
        if batch not in batches and batch // TIER not in tiers:
            self._write(self.fold.of(rows), f"batch-{batch:09d}")
        before = batch // TIER - 1
        if before >= 0 and before not in tiers:
            self._put_together(rows.sparkSession, before)

    def read(self, spark: SparkSession) -> DataFrame:
        """Read all folded rows, in however many batches they arrived."""
        return self.fold.of(self._rows(spark, self._whole()))

    def _rows(self, spark: SparkSession, names: Iterable[str]) -> DataFrame:
        schema = folded_schema(self.table)
        paths = [str(self.path / name) for name in names]
        return spark.read.schema(schema).parquet(*paths) if paths else no_rows(spark, schema)

    def _whole(self) -> list[str]:
        tiers, batches = self._numbers()
        alone = sorted(batch for batch in batches if batch // TIER not in tiers)
        return [f"tier-{tier:09d}" for tier in sorted(tiers)] + [f"batch-{batch:09d}" for batch in alone]

    def _put_together(self, spark: SparkSession, tier: int) -> None:
        """Make the tier from its batches. If killed at any point, the batches still exist, and remain."""
        _, batches = self._numbers()
        of_tier = [f"batch-{batch:09d}" for batch in sorted(batches) if batch // TIER == tier]
        self._write(self.fold.of(self._rows(spark, of_tier)), f"tier-{tier:09d}")
        tiers, batches = self._numbers()
        for batch in batches:
            if batch // TIER in tiers - {tier}:
                shutil.rmtree(self.path / f"batch-{batch:09d}")

    def _write(self, rows: DataFrame, name: str) -> None:
        hidden = self.path / f".{name}"
        rows.repartition(1).write.mode("overwrite").parquet(str(hidden))
        require_parts(hidden)
        for file in hidden.iterdir():
            _sync(file)
        _sync(hidden)
        hidden.rename(self.path / name)
        _sync(self.path)

    def _numbers(self) -> tuple[set[int], set[int]]:
        """Return the numbers of complete tiers and batches."""
        found: dict[str, set[int]] = {"tier": set(), "batch": set()}
        for path in self.path.glob("*-*"):
            if match := _NAME.match(path.name):
                found[match[1]].add(int(match[2]))
        return found["tier"], found["batch"]


def _sync(path: Path) -> None:
    """Sync the path: otherwise a power loss could leave an empty file under a name that marks it as complete."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
