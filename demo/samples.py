"""How far the gateways' samples on disk are, read with pyarrow alone: to know when the Spark job can start."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

from actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA
from demo.received import Interval, union


def attributed(storage: Path, topic: str) -> dict[str, int]:
    """Distinct messages of the topic by group, in what is on disk now."""
    folder = storage / "metrics" / SAMPLES
    if not folder.is_dir():
        return {}
    wanted = (ds.field("topic") == topic) & ds.field("group").is_valid()
    columns = ["group", "partition", "first_offset", "last_offset"]
    table = ds.dataset(folder, schema=SAMPLES_SCHEMA, format="parquet").to_table(columns, filter=wanted)
    intervals: dict[tuple[str, int], list[Interval]] = {}
    for row in table.to_pylist():
        intervals.setdefault((row["group"], row["partition"]), []).append((row["first_offset"], row["last_offset"]))
    found: dict[str, int] = {}
    for (group, _), offsets in intervals.items():
        found[group] = found.get(group, 0) + sum(last - first + 1 for first, last in union(offsets))
    return found
