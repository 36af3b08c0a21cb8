"""Rows for tests of event stores. As a process it writes them until it is killed:

``python -m tests.tables.events DIRECTORY FIRST_EPOCH`` prints each row's epoch after the store took it, and flushes
without pause in a second thread, so that a kill at any moment is likely to hit a flush.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from muster.actors.tables.events import EventStore
from muster.actors.tables.schemas.cluster import LIFECYCLE, LIFECYCLE_SCHEMA

HOUR_MS = 3_600_000
NOON_MS = 1_700_049_600_000  # 2023-11-15T12:00:00Z


def event(epoch: int, *, ts_ms: int = NOON_MS, **changes: Any) -> dict[str, Any]:
    held = {"ts": ts_ms, "actor": "log-0", "kind": "log", "event": "serving", "seen_by": "controller", "epoch": epoch}
    return held | changes


def open_store(directory: Path, owner: str = "controller") -> EventStore:
    return EventStore(directory, LIFECYCLE, owner, now_ms=lambda: NOON_MS)


def rows(directory: Path) -> list[dict[str, Any]]:
    if not (directory / LIFECYCLE).exists():
        return []
    table = ds.dataset(directory / LIFECYCLE, schema=LIFECYCLE_SCHEMA.arrow, format="parquet").to_table()
    return sorted(table.to_pylist(), key=lambda row: row["epoch"])


def epochs(directory: Path) -> list[int]:
    return [row["epoch"] for row in rows(directory)]


def main(directory: Path, first: int) -> None:
    store = open_store(directory)

    def flush_for_ever() -> None:
        while True:
            store.flush()

    threading.Thread(target=flush_for_ever, daemon=True).start()
    for epoch in range(first, first + 1_000_000):
        store.add(event(epoch, ts_ms=NOON_MS + epoch * 50))
        os.write(1, b"%d\n" % epoch)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
