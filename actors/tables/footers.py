"""Checks by its footer that a Parquet file is whole and belongs to its table."""

from __future__ import annotations

import re
from pathlib import Path

from muster.actors.tables.arrow import pa, pq
from muster.actors.tables.hours import TableDamaged
from muster.actors.tables.schemas import TABLES

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
_MAX_BYTES = 1 << 16
# Key and value of one entry of the footer's key_value_metadata, as Thrift's compact protocol writes them.
_TABLE = re.compile(rb"muster\.table\x18.([a-z_]+)", re.DOTALL)
_VERSION = re.compile(rb"muster\.schema\.version\x18.(\d+)", re.DOTALL)


def check(path: Path, table: str) -> None:
    """Check that the file can be read as a part of the table. Raises TableDamaged or FileNotFoundError.

    Files of older versions and files with additional columns can be read, files of newer versions cannot. Pages are not
    checked.
    """
    if not _is_plainly_sound(path, table):
        check_metadata(path, read_footer(path), table)


def read_footer(path: Path) -> pq.FileMetaData:
    """Return the file's footer. Raises TableDamaged or FileNotFoundError."""
    try:
        return pq.read_metadata(path)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise TableDamaged(path, f"is not a whole Parquet file ({_first_line(error)})") from error


def unreadable(path: Path | str, error: BaseException) -> TableDamaged:
    """Return TableDamaged for pyarrow's error while reading the file's rows, in one line."""
    return TableDamaged(path, f"cannot be read ({_first_line(error)})")


def _is_plainly_sound(path: Path, table: str) -> bool:
    """Check in a tenth of the time of decoding the footer, since tables have tens of thousands of files."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        begin = max(0, size - _MAX_BYTES)
        file.seek(begin)
        end = file.read()
    length = int.from_bytes(end[-_TAIL_BYTES:-4], "little")
    if end[-4:] != _MAGIC or not 0 < length <= len(end) - _TAIL_BYTES:
        return False
    footer = end[-_TAIL_BYTES - length : -_TAIL_BYTES]
    tables, versions = _TABLE.findall(footer), _VERSION.findall(footer)
    return tables == [table.encode()] and len(versions) == 1 and int(versions[0]) <= TABLES[table].version


def check_metadata(path: Path | str, found: pq.FileMetaData, table: str) -> None:
    """Check, by its footer, that the file can be read as a part of the table. Raises TableDamaged."""
    metadata = found.metadata or {}
    held = metadata.get(b"muster.table", table.encode()).decode(errors="replace")
    if held != table:
        raise TableDamaged(path, f"is a file of the table {held}, not of {table}")
    schema = TABLES[table]
    version = metadata.get(b"muster.schema.version", b"1")
    if not version.isdigit() or int(version) > schema.version:
        text = version.decode(errors="replace")
        raise TableDamaged(
            path, f"is of version {text} of {table}, this Muster reads up to {schema.version}: use a newer one"
        )
    names = set(found.schema.to_arrow_schema().names)
    missing = [name for name in schema.names if name in schema.required and name not in names]
    if missing:
        raise TableDamaged(path, f"has not the columns of {table}: {', '.join(missing)}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
