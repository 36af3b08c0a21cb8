"""Ranges as a Ray Data source: each task reads a piece of one range.

The ranges are fixed before, so that a Dataset that is executed again is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import ray.data
from ray.data import Dataset, Datasource, ReadTask
from ray.data.block import BlockMetadata

from muster.actors.log.format.arrow.schema import SCHEMA
from muster.gateway.client.data.fetching import read_range
from muster.gateway.client.data.ranges import Range, split

if TYPE_CHECKING:
    from ray.data.context import DataContext

    from muster.gateway.client.cluster import Cluster


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of these columns, of all by default. Raises ValueError for an unknown column."""
    if columns is None:
        return SCHEMA
    for name in columns:
        if name not in SCHEMA.names:
            raise ValueError(f"column {name!r} is none of {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def dataset_of(
    cluster: Cluster, group: str, ranges: Sequence[Range], columns: Sequence[str] | None, rows_per_task: int
) -> Dataset:
    """Return the records of the ranges as a lazy Dataset, with at most ``rows_per_task`` offsets for each task."""
    schema = schema_of(columns)
    source = RangesSource(cluster, group, list(split(ranges, rows_per_task)), columns, schema)
    if not source.pieces:
        return ray.data.from_arrow(schema.empty_table())
    dataset: Dataset = ray.data.read_datasource(source, override_num_blocks=len(source.pieces))
    return dataset


class RangesSource(Datasource):
    """Source with a task for each piece, whatever the parallelism: a smaller piece costs as much to begin with."""

    def __init__(
        self, cluster: Cluster, group: str, pieces: Sequence[Range], columns: Sequence[str] | None, schema: pa.Schema
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pieces = pieces
        self._cluster, self._group, self._columns, self._schema = cluster, group, columns, schema

    def get_name(self) -> str:
        return f"Muster[{self._group}]"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        return [self._task(each, per_task_row_limit) for each in self.pieces]

    def _task(self, piece: Range, row_limit: int | None) -> ReadTask:
        place = f"kafka://{piece.topic}/{piece.partition}/{piece.start}-{piece.end}"
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=(place,), exec_stats=None)
        read = partial(_tables, self._cluster, self._group, piece, self._columns)
        return ReadTask(read, metadata, schema=self._schema, per_task_row_limit=row_limit)


def _tables(cluster: Cluster, group: str, piece: Range, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    for batch in read_range(cluster, group, piece, columns):
        yield pa.Table.from_batches([batch])
