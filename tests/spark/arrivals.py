"""Files of tables as the actors write them, for tests of streams: with distinguishable rows."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from muster.actors.tables.parquet import write_whole
from muster.actors.tables.reading import folder_of
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.groups import REGISTRATIONS
from muster.actors.tables.schemas.offsets import COMMITS
from muster.actors.tables.schemas.samples import SAMPLES
from tests.spark.rows import NOON, at


def write_file(storage: Path, table: str, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """One file with rows of one hour, in that hour's folder; columns that a row omits are null."""
    schema = TABLES[table].arrow
    moment: datetime = rows[0][TABLES[table].time_column]
    target = folder_of(storage, table) / f"date={moment:%Y-%m-%d}" / f"hour={moment:%H}" / f"{name}.parquet"
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    write_whole(pa.table(columns, schema=schema), target)
    return target


def sample(chance: random.Random, *, hour: int = 0) -> dict[str, Any]:
    """Return a sample of some group and member, or of none, at a random time in that hour after noon."""
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
        "bytes": messages * chance.randrange(50, 150),
        "fetches": 1,
        "first_offset": first,
        "last_offset": first + messages - 1,
    }


def write_samples(storage: Path, name: str, chance: random.Random, *, hour: int = 0, rows: int = 40) -> Path:
    return write_file(storage, SAMPLES, name, [sample(chance, hour=hour) for _ in range(rows)])


def write_commits(storage: Path, name: str, chance: random.Random, *, hour: int = 0, rows: int = 10) -> Path:
    """Write commits of the groups of :func:`sample`, each past some of the sent offsets."""
    committed = []
    for _ in range(rows):
        previous = chance.randrange(400)
        committed.append(
            {
                "ts": NOON + timedelta(hours=hour, milliseconds=chance.randrange(3_600_000)),
                "offsets_partition": 7,
                "epoch": 1,
                "kind": "commit",
                "commits": 1,
                "group": f"g-{chance.randrange(1, 4)}",
                "topic": "flights",
                "partition": chance.randrange(3),
                "previous": previous,
                "lowest": previous,
                "offset": previous + chance.randrange(1, 100),
            }
        )
    return write_file(storage, COMMITS, name, committed)


def write_registrations(storage: Path) -> None:
    """Registrations: clients of :func:`sample` own each partition in turn, for a little over 40 s, with gaps."""
    said = {"offsets_partition": 7, "epoch": 1, "client_id": "rdkafka", "host": "127.0.0.1"}
    rows = []
    for number in range(50):
        group, owned = f"g-{number % 3 + 1}", [("flights", number % 3)]
        member = {**said, "group": group, "member_id": f"m-{number}", "kind": "member", "partitions": owned}
        rows.append({**member, "ts": at(70 * number), "sequence": 2 * number, "event": "registered"})
        rows.append({**member, "ts": at(70 * number + 43), "sequence": 2 * number + 1, "event": "withdrawn"})
    write_file(storage, REGISTRATIONS, "offsets-7-run-00000001", rows)
