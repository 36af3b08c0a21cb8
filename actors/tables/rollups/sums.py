"""Sums of samples by the minute, and the union of their offsets, with pyarrow alone: actors have no numpy.

Summing parts that were summed before, in any division, gives the same as summing all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.actors.tables.arrow import pa, pc
from muster.actors.tables.schemas.minutes import BLOCK_OFFSETS, MINUTES_SCHEMA

KEYS = ("gateway", "group", "member_id", "client_id", "host", "topic", "partition", "reason")
"""Columns that the samples of one row of a roll-up have in common."""
COLUMNS = (*KEYS, "ts", "messages", "bytes", "first_offset", "last_offset")
"""The columns of ``samples`` that are needed."""
_NULLABLE = frozenset(("group", "member_id", "client_id", "reason"))
_MINUTE_MS = 60_000
_MINUTES = 60
_BLOCK_BITS = BLOCK_OFFSETS.bit_length() - 1
_MAX_LINE = 1 << 62
_ID = "id"
_SUMS = [("messages", "sum"), ("bytes", "sum")]


class NotSummable(Exception):
    """The rows cannot be summed by the minute of their hour; ``str`` says why."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Parts that refer to ``keys`` by the number of the row there, in the column ``id``."""

    keys: pa.Table
    minutes: pa.Table
    """id, minute, messages, bytes."""
    runs: pa.Table
    """id, first_offset, last_offset, messages, bytes; runs of one id do not touch; ordered by id and offset."""
    blocks: pa.Table
    """id, block, offsets, bytes."""

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return int(self.minutes.num_rows + self.runs.num_rows + self.blocks.num_rows)


def sums_of(samples: pa.Table, hour_ms: int) -> Sums:
    """Sum up rows with :data:`COLUMNS`, all of the hour that begins then. Raises NotSummable."""
    _check(samples, hour_ms)
    keys, ids = _numbered(samples.select(list(KEYS)))
    since_ms = pc.subtract(pc.cast(samples["ts"], pa.int64()), hour_ms)
    first, last = samples["first_offset"], samples["last_offset"]
    lengths = pc.add(pc.subtract(last, first), 1)
    minutes = pa.table(
        {
            _ID: ids,
            "minute": pc.divide(since_ms, _MINUTE_MS),
            "messages": samples["messages"],
            "bytes": samples["bytes"],
        }
    )
    runs = pa.table(
        {
            _ID: ids,
            "first_offset": first,
            "last_offset": last,
            "messages": samples["messages"],
            "bytes": samples["bytes"],
        }
    )
    blocks = pa.table(
        {_ID: ids, "block": pc.shift_right(first, _BLOCK_BITS), "offsets": lengths, "bytes": samples["bytes"]}
    )
    return Sums(keys, _summed(minutes, "minute"), _merged(runs), _summed(blocks, "block"))


def sum_of(parts: Sequence[Sums]) -> Sums:
    """Return :func:`sums_of` of the rows of all parts, from their sums; at least one."""
    if len(parts) == 1:
        return parts[0]
    keys, ids = _numbered(pa.concat_tables([part.keys for part in parts]))
    begins = [0]
    for part in parts:
        begins.append(begins[-1] + part.keys.num_rows)

    def renumbered(tables: Iterable[pa.Table]) -> pa.Table:
        moved = []
        for table, begin in zip(tables, begins, strict=False):
            new = pc.take(ids, pc.add(table[_ID], begin))
            moved.append(table.set_column(0, _ID, new))
        return pa.concat_tables(moved)

    return Sums(
        keys,
        _summed(renumbered(part.minutes for part in parts), "minute"),
        _merged(renumbered(part.runs for part in parts)),
        _summed(renumbered(part.blocks for part in parts), "block"),
    )


def to_rows(sums: Sums, hour_ms: int) -> pa.Table:
    """Rows of :data:`muster.actors.tables.schemas.minutes.MINUTES_SCHEMA`."""
    schema = MINUTES_SCHEMA.arrow
    totals = sums.minutes.group_by(_ID).aggregate(_SUMS).sort_by(_ID)
    count = sums.keys.num_rows
    columns = {
        "began": pa.repeat(pa.scalar(hour_ms, pa.int64()).cast(schema.field("began").type), count),
        **{name: sums.keys[name] for name in KEYS},
        "messages": totals["messages_sum"],
        "bytes": totals["bytes_sum"],
        "minutes": _lists(sums.minutes, "minute", schema.field("minutes").type),
        "runs": _lists(sums.runs, "first_offset", schema.field("runs").type),
        "blocks": _lists(sums.blocks, "block", schema.field("blocks").type),
    }
    return pa.table([columns[field.name] for field in schema], schema=schema)


def _check(samples: pa.Table, hour_ms: int) -> None:
    for name in COLUMNS:
        if name not in _NULLABLE and samples[name].null_count:
            raise NotSummable(f"{name} is null")
    since_ms = pc.subtract(pc.cast(samples["ts"], pa.int64()), hour_ms)
    ends = pc.min_max(since_ms).as_py()
    if samples.num_rows and not 0 <= ends["min"] <= ends["max"] < _MINUTES * _MINUTE_MS:
        raise NotSummable("rows are of another hour")
    if pc.any(pc.less(samples["last_offset"], samples["first_offset"])).as_py():
        raise NotSummable("a run of offsets ends before it begins")


def _numbered(keys: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
    """Return the distinct rows, and for each row the number of its equal among them. Nulls are equal to nulls."""
    ids = None
    for name in keys.column_names:
        encoded = keys[name].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = encoded.indices.cast(pa.int64())
        if ids is not None:  # numbers stay below the number of rows, so products cannot overflow
            codes = pc.add(pc.multiply(ids, len(encoded.dictionary)), codes)
            codes = codes.dictionary_encode().indices.cast(pa.int64())
        ids = codes
    assert ids is not None
    count = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), len(ids)))
    firsts = pa.table({_ID: ids, "row": count}).group_by(_ID).aggregate([("row", "min")]).sort_by(_ID)
    distinct = keys.take(pc.subtract(firsts["row_min"], 1)).combine_chunks()
    return distinct, pa.chunked_array([ids])


def _summed(rows: pa.Table, by: str) -> pa.Table:
    """``rows`` (id, ``by``, and numbers to add up) with one row for each id and ``by``."""
    names = rows.column_names[2:]
    found = rows.group_by([_ID, by]).aggregate([(name, "sum") for name in names])
    return found.select([_ID, by, *(f"{name}_sum" for name in names)]).rename_columns([_ID, by, *names])


def _merged(rows: pa.Table) -> pa.Table:
    """Return runs, merged where those of one id touch or overlap.

    All ids are laid out on one line of offsets, one behind the other with a gap, so that one sort by a number and one
    running maximum are enough.
    """
    if not rows.num_rows:
        return rows
    low, high = pc.min(rows["first_offset"]).as_py(), pc.max(rows["last_offset"]).as_py()
    width = high - low + 2
    if (pc.max(rows[_ID]).as_py() + 1) * width >= _MAX_LINE:
        raise NotSummable("offsets are too far apart")
    shift = pc.subtract(pc.multiply(rows[_ID], width), low)
    first, last = (pc.add(rows[name], shift) for name in ("first_offset", "last_offset"))
    order = pc.sort_indices(first)
    rows, first, last = (column.take(order) for column in (rows, first, last))
    covered_to = pc.cumulative_max(last)
    begins = pc.greater(first.slice(1), pc.add(covered_to.slice(0, len(first) - 1), 1))
    numbers = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int64()), *_chunks(pc.cast(begins, pa.int64()))]))
    merged = (
        rows.append_column("run", numbers)
        .group_by("run")
        .aggregate([(_ID, "min"), ("first_offset", "min"), ("last_offset", "max"), *_SUMS])
        .sort_by("run")
    )
    made = [f"{_ID}_min", "first_offset_min", "last_offset_max", "messages_sum", "bytes_sum"]
    return merged.select(made).rename_columns(rows.column_names)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _lists(part: pa.Table, order: str, kind: pa.DataType) -> pa.Array:
    """For each id, in order, the list of its rows, by ``order``. Every id has one at least."""
    part = part.sort_by([(_ID, "ascending"), (order, "ascending")])
    counts = part.group_by(_ID).aggregate([([], "count_all")]).sort_by(_ID)
    ends = pc.cumulative_sum(pc.cast(counts["count_all"], pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), *_chunks(ends)])
    value = kind.value_type
    fields = [part[field.name].cast(field.type).combine_chunks() for field in value]
    structs = pa.StructArray.from_arrays(fields, fields=list(value))
    return pa.ListArray.from_arrays(offsets, structs, type=kind)
