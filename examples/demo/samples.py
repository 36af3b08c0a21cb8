"""The progress of the gateways' samples on disk, read with pyarrow alone: it shows when the Spark job can start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from examples.demo.counters import Counted
from examples.demo.received import Interval, union
from muster.actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA


def attributed(storage: Path, topic: str) -> dict[str, int]:
    """Count the distinct messages of the topic by group, in the files so far."""
    intervals: dict[tuple[str, int], list[Interval]] = {}
    columns = ["group", "partition", "first_offset", "last_offset"]
    for row in _rows(storage, columns, ds.field("topic") == topic):
        intervals.setdefault((row["group"], row["partition"]), []).append((row["first_offset"], row["last_offset"]))
    found: dict[str, int] = {}
    for (group, _), offsets in intervals.items():
        found[group] = found.get(group, 0) + sum(last - first + 1 for first, last in union(offsets))
    return found


def sent(storage: Path) -> Counted:
    """Sum up the amounts of each gateway and group, in the files so far."""
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for row in _rows(storage, ["gateway", "group", "messages", "bytes"]):
        key = row["gateway"], row["group"]
        messages, size_bytes = found.get(key, (0, 0))
        found[key] = messages + row["messages"], size_bytes + row["bytes"]
    return found


def evidence_bytes(storage: Path) -> dict[tuple[str, str], int]:
    """Sum up the bytes sent, by group and evidence (docs/attribution.md), in the files so far."""
    found: dict[tuple[str, str], int] = {}
    for row in _rows(storage, ["group", "evidence", "bytes"]):
        key = row["group"], row["evidence"]
        found[key] = found.get(key, 0) + row["bytes"]
    return found


def _rows(storage: Path, columns: list[str], wanted: ds.Expression | None = None) -> list[dict[str, Any]]:
    """Read the rows that have a group."""
    folder = storage / "metrics" / SAMPLES
    if not folder.is_dir():
        return []
    attributed = ds.field("group").is_valid()
    table = ds.dataset(folder, schema=SAMPLES_SCHEMA.arrow, format="parquet").to_table(
        columns, filter=attributed if wanted is None else attributed & wanted
    )
    return list(table.to_pylist())
