"""A group's members and partitions: assignment beside lag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.gateway.console.model.table import Column, Kind, Table
from muster.gateway.console.model.text import ranges

MEMBER_COLUMNS = (
    Column("client_id", "Client id", Kind.NAME),
    Column("host", "Host", Kind.NAME),
    Column("partitions", "Assignment", Kind.NAME),
    Column("assigned", "Partitions", Kind.COUNT),
    Column("lag", "Lag", Kind.COUNT),
    Column("lag_s", "Lag, time", Kind.SECONDS),
    Column("heartbeat_age_ms", "Last heartbeat", Kind.MS),
    Column("group_instance_id", "Instance id", Kind.NAME),
    Column("member_id", "Member id", Kind.NAME),
)
PARTITION_COLUMNS = (
    Column("topic", "Topic", Kind.NAME),
    Column("partition", "Partition", Kind.COUNT),
    Column("committed_offset", "Committed", Kind.COUNT),
    Column("end_offset", "End", Kind.COUNT),
    Column("lag", "Lag", Kind.COUNT),
    Column("lag_s", "Lag, time", Kind.SECONDS),
    Column("client_id", "Client id", Kind.NAME),
    Column("host", "Host", Kind.NAME),
)


def assignment_text(assignment: Mapping[str, Any]) -> str:
    """Return an assignment in short: ``orders``, partitions 0 to 3, and ``payments`` 1."""
    return ", ".join(f"{topic} {ranges(partitions)}" for topic, partitions in sorted(assignment.items()))


def member_table(described: Mapping[str, Any] | None, lag: Mapping[str, Any] | None) -> Table:
    """Return the members; without a description, those that own a partition."""
    owned: dict[str, list[Mapping[str, Any]]] = {}
    for row in (lag or {}).get("partitions") or ():
        if row.get("member_id"):
            owned.setdefault(row["member_id"], []).append(row)
    members = _described(described) if described is not None else _owners(owned)
    rows = []
    for member in members:
        rows_of = owned.get(member["member_id"], [])
        lags = [row["lag"] for row in rows_of if row.get("lag") is not None]
        seconds = [row["lag_s"] for row in rows_of if row.get("lag_s") is not None]
        rows.append(
            {
                **member,
                "lag": sum(max(lag, 0) for lag in lags) if lags else None,
                "lag_s": max(seconds, default=None),
            }
        )
    return Table(MEMBER_COLUMNS, sorted(rows, key=lambda row: (row["client_id"] or "", row["member_id"])))


def _described(described: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    for member in described.get("members") or ():
        assignment = member.get("assignment") or {}
        found.append(
            {
                "member_id": member["member_id"],
                "client_id": member.get("client_id"),
                "host": (member.get("host") or "").lstrip("/"),
                "group_instance_id": member.get("group_instance_id"),
                "partitions": assignment_text(assignment),
                "assigned": sum(len(partitions) for partitions in assignment.values()),
                "heartbeat_age_ms": member.get("heartbeat_age_ms"),
            }
        )
    return found


def _owners(owned: Mapping[str, list[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    found = []
    for member_id, rows in owned.items():
        assignment: dict[str, list[int]] = {}
        for row in rows:
            assignment.setdefault(row["topic"], []).append(row["partition"])
        found.append(
            {
                "member_id": member_id,
                "client_id": rows[0].get("client_id"),
                "host": rows[0].get("host"),
                "group_instance_id": None,
                "partitions": assignment_text(assignment),
                "assigned": len(rows),
                "heartbeat_age_ms": None,
            }
        )
    return found


def partition_table(lag: Mapping[str, Any] | None) -> Table:
    """Return the partitions of ``/v1/groups/lag?group=G``, the furthest behind first."""
    rows = sorted(
        (lag or {}).get("partitions") or (),
        key=lambda row: (-(row.get("lag_s") or 0), -(row.get("lag") or 0), row["topic"], row["partition"]),
    )
    return Table(PARTITION_COLUMNS, rows)


def choices(lag: Mapping[str, Any] | None) -> dict[str, list[int]]:
    """Return the partitions with a commit, by topic: those that a reset may name."""
    found: dict[str, list[int]] = {}
    for row in (lag or {}).get("partitions") or ():
        if row.get("committed_offset") is not None:
            found.setdefault(row["topic"], []).append(row["partition"])
    return {topic: sorted(partitions) for topic, partitions in sorted(found.items())}
