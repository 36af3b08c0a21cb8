"""The streaming form of a job: which of its tables are folded as they grow (:mod:`spark.streaming`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark.jobs.job import Options, StreamPlace


@dataclass(frozen=True, slots=True)
class FoldedStream:
    """A :data:`spark.jobs.job.Stream`."""

    tables: tuple[str, ...]

    def __call__(self, session: SparkSession, place: StreamPlace, options: Options) -> Sequence[StreamingQuery]:
        """The checkpoint is in ``place.out`` and locked until the process ends. StreamRefused, TableDamaged, OSError.

        ``options`` are for whoever reads: everything is folded.
        """
        from spark.streaming.stream import start_stream  # imports the jobs, which have one of these

        return start_stream(session, place, self.tables)
