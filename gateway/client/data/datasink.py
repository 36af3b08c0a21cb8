"""Prepares the records of a Dataset in tasks: record batches that a producer only has to stamp and send.

Nothing is sent by a task, so one that Ray repeats does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from ray.data.block import Block, BlockAccessor
from ray.data.datasource import Datasink, WriteResult

from muster.actors.log.format.arrow.building import build_columns
from muster.actors.log.format.arrow.partitioning import partitions_of
from muster.gateway.client.errors import OutputTooLarge


class Columns(NamedTuple):
    """Names of the columns that become a record; None: it has none."""

    key: str | None
    value: str
    headers: str | None
    partition: str | None


@dataclass(frozen=True, slots=True)
class Target:
    """Where records go, and how large batches may be."""

    topic: str
    partitions: int
    columns: Columns
    max_batch_bytes: int
    """``max.message.bytes`` of the topic."""
    timestamp_ms: int
    """Timestamp of all records."""


class Prepared(NamedTuple):
    """The batches of one task."""

    task: int
    records: int
    batches: list[tuple[int, bytearray]]
    """Partition and batch, in the order of the rows."""

    @property
    def size_bytes(self) -> int:
        return sum(len(batch) for _, batch in self.batches)


class PreparingSink(Datasink[Prepared]):
    """Sink that sends nothing; :attr:`prepared` has the batches afterwards, by task."""

    def __init__(self, target: Target, max_bytes: int) -> None:
        self._target, self._max_bytes = target, max_bytes
        self.prepared: list[Prepared] = []

    def get_name(self) -> str:
        return f"Muster[{self._target.topic}]"

    def write(self, blocks: Iterable[Block], ctx: Any) -> Prepared:
        """Prepare the blocks of one task. Raises OutputTooLarge, or TypeError or ValueError for their columns."""
        found = Prepared(ctx.task_idx, 0, [])
        for number, block in enumerate(blocks):
            table = BlockAccessor.for_block(block).to_arrow()
            found = found._replace(records=found.records + table.num_rows)
            found.batches.extend(_batches(table, self._target, ctx.task_idx + number))
            check_size(found.size_bytes, self._max_bytes)
        return found

    def on_write_complete(self, write_result: WriteResult[Prepared]) -> None:
        """Keep what the tasks prepared, in their order."""
        self.prepared = sorted(write_result.write_returns, key=lambda each: each.task)


def check_size(size_bytes: int, max_bytes: int) -> None:
    """Raise OutputTooLarge if it is more than the driver may hold."""
    if size_bytes > max_bytes:
        raise OutputTooLarge(
            f"the output has more than {max_bytes} bytes, which the driver has to hold until it is committed; "
            "read less at a time with max_records, or allow more with max_bytes"
        )


def _batches(table: pa.Table, target: Target, turn: int) -> Iterator[tuple[int, bytearray]]:
    """Yield the batches of each partition. ``turn`` chooses that of records without a key, which stay together."""
    columns = target.columns
    if not table.num_rows:
        return
    table = table.combine_chunks()
    key = None if columns.key is None else _column(table, columns.key)
    value = _column(table, columns.value)
    headers = None if columns.headers is None else _column(table, columns.headers)
    partitions = _partitions(table, target, key, turn)
    order = np.argsort(partitions, kind="stable")
    found, begins = np.unique(partitions[order], return_index=True)
    for partition, rows in zip(found, np.split(order, begins[1:]), strict=True):
        taken = pa.array(rows)
        keys, values, of_headers = (None if each is None else each.take(taken) for each in (key, value, headers))
        for batch in build_columns(keys, values, target.timestamp_ms, of_headers, max_bytes=target.max_batch_bytes):
            yield int(partition), batch


def _column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        raise ValueError(f"the dataset has no column {name!r}; its columns are {', '.join(table.column_names)}")
    chunked = table.column(name)
    return chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()


def _partitions(table: pa.Table, target: Target, key: pa.Array | None, turn: int) -> np.ndarray[Any, Any]:
    """Return the partition of each row: given, by its key as Kafka's Java client does, or any."""
    if target.columns.partition is not None:
        given = _column(table, target.columns.partition)
        found = np.asarray(given.cast(pa.int32()))
        if given.null_count or found.min() < 0 or found.max() >= target.partitions:
            raise ValueError(
                f"column {target.columns.partition!r} must have partitions of {target.topic}, "
                f"0 to {target.partitions - 1}"
            )
        return found
    anywhere = turn % target.partitions
    if key is None:
        return np.full(table.num_rows, anywhere, np.int32)
    found = partitions_of(key, target.partitions)
    return np.where(found < 0, anywhere, found)
