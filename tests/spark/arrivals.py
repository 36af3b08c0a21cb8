"""Files of tables as the actors write them, for tests of streams: rows of samples that can be told apart."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.tables.parquet import write_whole
from actors.tables.reading import folder_of
from actors.tables.schemas import TABLES, time_column_of
from actors.tables.schemas.samples import SAMPLES
from tests.spark.rows import NOON


def write_file(storage: Path, table: str, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """One file of rows of one hour, in that hour's folder; columns that a row does not name are null."""
    schema = TABLES[table]
    moment: datetime = rows[0][time_column_of(schema)]
    target = folder_of(storage, table) / f"date={moment:%Y-%m-%d}" / f"hour={moment:%H}" / f"{name}.parquet"
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    write_whole(pa.table(columns, schema=schema), target)
    return target


def sample(chance: random.Random, *, hour: int = 0) -> dict[str, Any]:
    """Of some group and member, or of none, somewhere in that hour after noon."""
    ts = NOON + timedelta(hours=hour, milliseconds=chance.randrange(3_600_000))
    number, first, messages = chance.randrange(4), chance.randrange(500), chance.randrange(1, 60)
    attributed = number > 0
    return {
        "ts": ts,
        "last_ts": ts + timedelta(milliseconds=chance.randrange(5000)),
        "gateway": chance.randrange(2),
        "group": f"g-{number}" if attributed else None,
        "member_id": f"m-{chance.randrange(2)}" if attributed else None,
        "client_id": None if chance.random() < 0.2 else "rdkafka",
        "host": "127.0.0.1",
        "topic": "flights",
        "partition": chance.randrange(3),
        "evidence": "assignment" if attributed else "none",
        "reason": None if attributed else "no_group",
        "messages": messages,
        "bytes": 100 * messages,
        "fetches": 1,
        "first_offset": first,
        "last_offset": first + messages - 1,
    }


def write_samples(storage: Path, name: str, chance: random.Random, *, hour: int = 0, rows: int = 40) -> Path:
    return write_file(storage, SAMPLES, name, [sample(chance, hour=hour) for _ in range(rows)])
