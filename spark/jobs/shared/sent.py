"""Amounts sent by gateways, from samples and roll-ups of samples (:mod:`muster.actors.tables.rollups.files`) as one.

Each row of ``samples`` is in one of the two. All functions return rows that have yet to be added up, or merged, so
results do not depend on which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muster.actors.tables.schemas.minutes import BLOCK_OFFSETS, MINUTES
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.shared.buckets import step_of

ROLLED_UP = MINUTES
"""Name of the roll-ups among a job's tables."""
NOT_ROLLED_UP = "samples_not_rolled_up"
"""Name, among a job's tables, of the rows of ``samples`` that are in no roll-up."""
STEP_S = 60
"""Roll-ups know steps of time that are a multiple of this."""
_HOUR_S = 3600
_BLOCK_BITS = BLOCK_OFFSETS.bit_length() - 1
_SUMS = ("messages", "bytes")


@dataclass(frozen=True, slots=True)
class Sent:
    """Samples, and roll-ups of other samples."""

    samples: DataFrame
    rollups: DataFrame | None = None

    @classmethod
    def of(cls, tables: Mapping[str, DataFrame]) -> Sent:
        """Return the samples of a job's tables: with roll-ups if they are among them."""
        if ROLLED_UP in tables:
            return cls(tables[NOT_ROLLED_UP], tables[ROLLED_UP])
        return cls(tables[SAMPLES])

    def where(self, limited: Callable[[DataFrame], DataFrame]) -> Sent:
        """Return the rows that ``limited`` keeps, by columns that a roll-up has."""
        return Sent(limited(self.samples), None if self.rollups is None else limited(self.rollups))

    def totals(self, *keys: str | Column) -> DataFrame:
        """Return ``keys``, messages, bytes."""
        return self._both(lambda rows: rows.select(*keys, *_SUMS), lambda rows: rows.select(*keys, *_SUMS))

    def steps(self, *keys: str | Column, seconds: int) -> DataFrame:
        """Return bucket (the start of the step of ``seconds`` in which the samples begin), ``keys``, messages, bytes.

        With roll-ups, ``seconds`` is a multiple of :data:`STEP_S`. Raises ValueError for less than 1 s.
        """

        def of_samples(rows: DataFrame) -> DataFrame:
            return rows.select(step_of(F.col("ts"), seconds).start.alias("bucket"), *keys, *_SUMS)

        def of_rollups(rows: DataFrame) -> DataFrame:
            if seconds == _HOUR_S:
                return rows.select(F.col("began").alias("bucket"), *keys, *_SUMS)
            minutes = rows.select("began", *keys, F.inline("minutes"))
            at = F.timestamp_seconds(F.unix_timestamp("began") + F.col("minute") * STEP_S)
            return minutes.select(step_of(at, seconds).start.alias("bucket"), *minutes.columns[1:-3], *_SUMS)

        return self._both(of_samples, of_rollups)

    def runs(self, *keys: str) -> DataFrame:
        """Return ``keys``, first_offset, last_offset, messages, bytes."""
        columns = ("first_offset", "last_offset", *_SUMS)
        return self._both(
            lambda rows: rows.select(*keys, *columns),
            lambda rows: rows.select(*keys, F.inline("runs")),
        )

    def blocks(self, *keys: str) -> DataFrame:
        """Return ``keys``, block (of the first offset), offsets, bytes."""
        length = (F.col("last_offset") - F.col("first_offset") + 1).alias("offsets")
        block = F.shiftright("first_offset", _BLOCK_BITS).alias("block")
        return self._both(
            lambda rows: rows.select(*keys, block, length, "bytes"),
            lambda rows: rows.select(*keys, F.inline("blocks")),
        )

    def _both(
        self, of_samples: Callable[[DataFrame], DataFrame], of_rollups: Callable[[DataFrame], DataFrame]
    ) -> DataFrame:
        rows = of_samples(self.samples)
        return rows if self.rollups is None else rows.unionByName(of_rollups(self.rollups))
