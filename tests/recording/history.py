"""Registered members over time, computed from the rows of ``registrations`` as their schema's docstring says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


def held_at(rows: Iterable[Row], at_ms: int) -> dict[tuple[str, str], Row]:
    """Return the ``registered`` rows in force at that time, by group and member id."""
    known = [row for row in rows if row["ts"] <= at_ms]
    held: dict[tuple[str, str], Row] = {}
    for partition in {row["offsets_partition"] for row in known}:
        held |= _held([row for row in known if row["offsets_partition"] == partition])
    return held


def _held(rows: list[Row]) -> dict[tuple[str, str], Row]:
    snapshots = [(row["epoch"], row["ts"]) for row in rows if row["event"] == "snapshot"]
    if not snapshots:
        return {}
    epoch, since_ms = max(snapshots)
    last: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row["epoch"] != epoch or row["ts"] < since_ms or row["event"] == "snapshot":
            continue
        who = row["group"], row["member_id"]
        if who not in last or last[who]["sequence"] <= row["sequence"]:
            last[who] = row
    return {who: row for who, row in last.items() if row["event"] == "registered"}


def intervals(rows: Iterable[Row]) -> list[tuple[int, int | None, Row]]:
    """Return from and until (exclusive; None: still in force) of each ``registered`` row."""
    rows = [*rows]
    said: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["event"] != "snapshot":
            said.setdefault((row["offsets_partition"], row["epoch"], row["group"], row["member_id"]), []).append(row)
    found = []
    for (partition, epoch, _, _), same in said.items():
        same.sort(key=lambda row: (row["sequence"], row["ts"]))
        later = [
            row["ts"]
            for row in rows
            if row["event"] == "snapshot" and row["offsets_partition"] == partition and row["epoch"] > epoch
        ]
        for row, following in zip(same, [*same[1:], None], strict=True):
            ends = [*later, *([following["ts"]] if following else [])]
            if row["event"] == "registered":
                found.append((row["ts"], min(ends, default=None), row))
    return found
