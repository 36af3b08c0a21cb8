"""Roll-ups of files of ``samples``: what one finished file has, by the minute and as runs of offsets.

The roll-up of ``samples/date=.../hour=.../NAME`` is ``_rollups/samples/date=.../hour=.../NAME``. It sums up its source
and nothing else, so it may be missing, and may be removed at any time at which no job reads it. It counts only if its
metadata has the size of the file of that name, which is never changed. Readers of tables do not look into a folder
whose name begins with ``_``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from muster.actors.tables.arrow import pa, pq
from muster.actors.tables.footers import unreadable
from muster.actors.tables.hours import Hour, names_in
from muster.actors.tables.parquet import write_whole
from muster.actors.tables.rollups.sums import COLUMNS, NotSummable, Sums, sum_of, sums_of, to_rows
from muster.actors.tables.schemas.minutes import MINUTES, MINUTES_SCHEMA, MINUTES_VERSION

FOLDER = "_rollups"
_SOURCE_BYTES = b"muster.source.bytes"
_BATCH_ROWS = 131_072
_SUM_AGAIN_ROWS = 1 << 20
_MAX_ROWS = 1 << 23
"""Limit of all parts of one roll-up: some 400 MB. Files with more are read as they are."""
_ROW_GROUP_ROWS = 16_384


def root_of_rollups(table: Path) -> Path:
    """Return the folder that has the roll-ups of a table's files."""
    return table.parent / FOLDER / table.name


def folder_of_rollups(hour: Path) -> Path:
    """Return the folder of the roll-ups of an hour folder's files."""
    table = hour.parent.parent
    return root_of_rollups(table) / hour.parent.name / hour.name


def rollup_of(file: Path) -> Path | None:
    """Return the roll-up that has exactly the rows of that file; None if there is none."""
    found = folder_of_rollups(file.parent) / file.name
    try:
        metadata = pq.read_metadata(found).metadata or {}
        size_bytes = file.stat().st_size
    except (OSError, pa.ArrowException):  # missing, damaged, or not ours: the file itself has the rows
        return None
    expected = {
        b"muster.table": MINUTES.encode(),
        b"muster.schema.version": b"%d" % MINUTES_VERSION,
        _SOURCE_BYTES: b"%d" % size_bytes,
    }
    return found if expected.items() <= metadata.items() else None


def write_rollup(file: Path, hour: Hour) -> None:
    """Write the roll-up of a file of that hour, if its rows can be summed.

    Otherwise the roll-up is an empty one that never counts, so that the file is not read again. Raises TableDamaged for
    a file that cannot be read; OSError if the disk refuses.
    """
    size_bytes = file.stat().st_size
    try:
        rows = to_rows(_sums_of_file(file, hour.start_ms), hour.start_ms)
    except NotSummable:
        rows, size_bytes = MINUTES_SCHEMA.arrow.empty_table(), -1
    metadata = {**rows.schema.metadata, _SOURCE_BYTES: b"%d" % size_bytes}
    target = folder_of_rollups(hour.path) / file.name
    write_whole(rows.replace_schema_metadata(metadata), target, row_group_rows=_ROW_GROUP_ROWS)


def remove_rollups(hour: Path) -> None:
    """Remove all roll-ups of an hour folder's files."""
    folder = folder_of_rollups(hour)
    for name in names_in(folder):
        (folder / name).unlink(missing_ok=True)
    for empty in (folder, folder.parent):
        try:
            empty.rmdir()
        except OSError:  # not there, or the date has other hours
            return


def _sums_of_file(file: Path, hour_ms: int) -> Sums:
    parts: list[Sums] = []
    held_rows, again_at_rows = 0, _SUM_AGAIN_ROWS
    for rows in _batches(file):
        parts.append(sums_of(rows, hour_ms))
        held_rows += parts[-1].rows
        if held_rows >= again_at_rows:
            parts = [sum_of(parts)]
            held_rows = parts[0].rows
            again_at_rows = 2 * held_rows + _SUM_AGAIN_ROWS
        if held_rows > _MAX_ROWS:
            raise NotSummable("it has too many minutes and runs")
    if not parts:
        raise NotSummable("it has no rows")
    return sum_of(parts)


def _batches(file: Path) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False) as held:
            if missing := [name for name in COLUMNS if name not in held.schema_arrow.names]:
                raise NotSummable(f"it has no {', '.join(missing)}")
            for batch in held.iter_batches(_BATCH_ROWS, columns=list(COLUMNS), use_threads=False):
                yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError) as error:
        raise unreadable(file, error) from error
