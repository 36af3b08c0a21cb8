"""Files of the table ``samples``, of any content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from muster.actors.tables.parquet import write_whole
from muster.actors.tables.rollup import hour_folder
from muster.actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA
from tests.tables.events import HOUR_MS, NOON_MS

ROW = {
    "ts": NOON_MS,
    "last_ts": NOON_MS,
    "gateway": 0,
    "group": "billing",
    "member_id": "m-1",
    "client_id": "rdkafka",
    "host": "127.0.0.1",
    "topic": "flights",
    "partition": 0,
    "evidence": "assignment",
    "reason": None,
    "messages": 10,
    "bytes": 1000,
    "fetches": 1,
    "first_offset": 0,
    "last_offset": 9,
}
_WHO = (
    {"group": "billing", "member_id": "m-1"},
    {"group": "billing", "member_id": "m-2", "client_id": None},
    {"group": "archive", "member_id": None, "client_id": ""},
    {"group": None, "member_id": None, "evidence": "none", "reason": "no_group"},
    {"group": None, "member_id": None, "evidence": "none", "reason": None},
    {"group": None, "member_id": None, "evidence": "none", "reason": "internal"},
)
_RUN = st.tuples(st.integers(0, 9_000), st.integers(0, 5_000)) | st.tuples(st.integers(0, 40), st.integers(0, 12))


@st.composite
def samples(draw: st.DrawFn, *, hours: int = 1) -> dict[str, Any]:
    """Return a row in one of the hours from noon: runs of offsets that touch, overlap, repeat and have gaps."""
    ts = NOON_MS + draw(st.integers(0, hours * HOUR_MS - 1))
    first, length = draw(_RUN)
    return {
        **ROW,
        **draw(st.sampled_from(_WHO)),
        "ts": ts,
        "last_ts": ts + draw(st.integers(-10, 30_000)),
        "gateway": draw(st.integers(0, 1)),
        "partition": draw(st.integers(0, 1)),
        "messages": draw(st.integers(1, 50)),
        "bytes": draw(st.integers(0, 5_000)),
        "first_offset": first,
        "last_offset": first + length,
    }


def to_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema = SAMPLES_SCHEMA.arrow) -> pa.Table:
    return pa.Table.from_pylist([*rows], schema=schema)


def put_samples(storage: Path, file: str, rows: Iterable[Mapping[str, Any]]) -> list[Path]:
    """Write the rows, each in a file of that name in the folder of its hour."""
    hours: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        hours.setdefault(hour_folder(row["ts"]), []).append(row)
    paths = [storage / "metrics" / SAMPLES / hour / f"{file}.parquet" for hour in hours]
    for path, held in zip(paths, hours.values(), strict=True):
        write_whole(to_table(held), path)
    return paths
