"""The tables of :mod:`benchmarks.tables` besides samples: the rows of coordinators, logs and the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.table_world import HOUR_MS, LOGS, World
from muster.actors.tables.parquet import COMPRESSION, write_rows
from muster.actors.tables.rollup import hour_folder
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.administration import ADMINISTRATION
from muster.actors.tables.schemas.cluster import FAULTS, LIFECYCLE, REPAIRS
from muster.actors.tables.schemas.groups import GROUP_EVENTS, REGISTRATIONS
from muster.actors.tables.schemas.offsets import COMMITS, END_OFFSETS
from muster.actors.tables.schemas.rebalances import REBALANCES

_COMMIT_STEP_MS = 300_000
_END_OFFSET_STEP_MS = 60_000
_RECORD_BYTES = 220
_EPOCH = 1
_UTC_MS = pa.timestamp("ms", tz="UTC")
_CALM_REBALANCES = 3


def write(metrics: Path, world: World) -> None:
    """Write all of them below ``metrics``."""
    for hour_ms in range(world.start_ms, world.end_ms, HOUR_MS):
        _write_columns(metrics, COMMITS, hour_ms, _commits(world, hour_ms))
        _write_columns(metrics, END_OFFSETS, hour_ms, _end_offsets(world, hour_ms))
    for name, rows in (
        (REBALANCES, _rebalances(world)),
        (GROUP_EVENTS, _group_events(world)),
        (REGISTRATIONS, _registrations(world)),
        (LIFECYCLE, _lifecycle(world)),
        (REPAIRS, _repairs(world)),
        (FAULTS, _faults(world)),
        (ADMINISTRATION, _administration(world)),
    ):
        schema = TABLES[name]
        write_rows(metrics / name, f"bench-{name}", schema, [_whole(schema.arrow, row) for row in rows])


def _write_columns(metrics: Path, table: str, hour_ms: int, columns: Mapping[str, Any]) -> None:
    schema = TABLES[table].arrow
    folder = metrics / table / hour_folder(hour_ms)
    folder.mkdir(parents=True)
    rows = pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
    pq.write_table(rows, folder / f"bench-{hour_ms}.parquet", **COMPRESSION)


def _steps(world: World, hour_ms: int, step_ms: int) -> Any:
    """Return the starts of the hour's windows after which a row is written: every ``step_ms``, or after each window."""
    every = _step_windows(world, step_ms)
    windows = world.windows()[every - 1 :: every]
    ends = windows + world.window_ms - 1
    return windows[(ends >= hour_ms) & (ends < hour_ms + HOUR_MS)]


def _step_windows(world: World, step_ms: int) -> int:
    return max(1, step_ms // world.window_ms)


def _commits(world: World, hour_ms: int) -> Mapping[str, Any]:
    windows = _steps(world, hour_ms, _COMMIT_STEP_MS)
    shape = (len(windows), len(world.track_group))
    at = np.broadcast_to(windows[:, None], shape)
    keep = ~(world.track_stalled[None, :] & (at >= world.planted.stalled_from_ms)).ravel()
    track = np.broadcast_to(np.arange(shape[1]), shape).ravel()[keep]
    window = at.ravel()[keep]
    topic, partition = world.track_topic[track], world.track_partition[track]
    offset = world.offsets_after(window, topic, partition)
    before = world.offsets_after(window - _step_windows(world, _COMMIT_STEP_MS) * world.window_ms, topic, partition)
    group = world.track_group[track]
    member = world.track_member[track]
    none = np.zeros(len(track), np.int32)
    return {
        "ts": pa.array(window + world.window_ms - 1, _UTC_MS),
        "offsets_partition": np.array(world.offsets_partition, np.int32)[group],
        "epoch": none + _EPOCH,
        "group": _named(group, world.groups),
        "topic": _named(topic, world.topics),
        "partition": partition,
        "kind": _named(none, ["commit"]),
        "offset": offset,
        "lowest": np.minimum(offset, before + 1),
        "previous": pa.array(before, pa.int64(), mask=before <= 0),
        "commits": none.astype(np.int64) + 1,
        "generation": none + _CALM_REBALANCES,
        "member_id": _named(member, world.members),
        "client_id": _named(group, world.client_ids),
        "host": _named(member % len(world.hosts), world.hosts),
    }


def _end_offsets(world: World, hour_ms: int) -> Mapping[str, Any]:
    windows = _steps(world, hour_ms, _END_OFFSET_STEP_MS)
    used = sorted({(int(t), int(p)) for t, p in zip(world.track_topic, world.track_partition, strict=True)})
    shape = (len(windows), len(used))
    topic = np.broadcast_to(np.array([t for t, _ in used], np.int32), shape).ravel()
    partition = np.broadcast_to(np.array([p for _, p in used], np.int32), shape).ravel()
    window = np.broadcast_to(windows[:, None], shape).ravel()
    end = world.offsets_after(window, topic, partition) + 5
    now = window + world.window_ms - 1
    return {
        "ts": pa.array(now, _UTC_MS),
        "log": (topic + partition) % LOGS,
        "topic": _named(topic, world.topics),
        "partition": partition,
        "epoch": np.full(len(end), _EPOCH, np.int32),
        "log_start_offset": np.zeros(len(end), np.int64),
        "log_end_offset": end,
        "last_append": pa.array(now - 100, _UTC_MS),
        "size_bytes": end * _RECORD_BYTES,
    }


def _named(places: Any, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(names, pa.string())).cast(pa.string())


def _rebalances(world: World) -> Iterator[dict[str, Any]]:
    for group, name in enumerate(world.groups):
        moments = [world.start_ms + 60_000 + group * 1000 + n * HOUR_MS // 2 for n in range(_CALM_REBALANCES)]
        causes = ["member joined"] * len(moments)
        if name == world.planted.storm_group:
            first = world.planted.storm_from_ms
            moments += [first + n * 10_000 for n in range(world.planted.storm_rebalances)]
            causes += ["session expired"] * world.planted.storm_rebalances
        for number, (began, cause) in enumerate(zip(moments, causes, strict=True), start=1):
            yield _rebalance(world, group, number, began, cause)


def _rebalance(world: World, group: int, number: int, began: int, cause: str) -> dict[str, Any]:
    members = _members(world, group)
    who = {**members[1 if cause == "session expired" else 0], "group_instance_id": None}
    return {
        "group": world.groups[group],
        "offsets_partition": world.offsets_partition[group],
        "epoch": _EPOCH,
        "number": number * 1000 + group,
        "from_state": "Stable",
        "previous_generation": number - 1,
        "generation": number,
        "began": began,
        "joined": began + 3_000,
        "stable": began + 3_200,
        "ended": began + 3_400,
        "ending": "stable",
        "cause": cause,
        "culprit": who,
        "protocol_type": "consumer",
        "protocol": "range",
        "rebalance_protocol": "eager",
        "leader": members[0]["member_id"],
        "members_before": len(members),
        "members_after": len(members),
        "partitions_assigned": 32,
        "partitions_still": 32,
        "lost_partition_ms": 32 * 3_400,
        "gone": [{**who, "cause": cause, "reason": None}] if cause == "session expired" else [],
    }


def _members(world: World, group: int) -> list[dict[str, Any]]:
    each = len(world.members) // len(world.groups)
    return [
        {
            "member_id": world.members[place],
            "client_id": world.client_ids[group],
            "host": world.hosts[place % len(world.hosts)],
        }
        for place in range(group * each, (group + 1) * each)
    ]


def _group_events(world: World) -> Iterator[dict[str, Any]]:
    for group, name in enumerate(world.groups):
        for number, member in enumerate(_members(world, group), start=1):
            yield {
                "ts": world.start_ms + number,
                "offsets_partition": world.offsets_partition[group],
                "epoch": _EPOCH,
                "number": group * 1000 + number,
                "group": name,
                "event": "member_added",
                "generation": 0,
                "members": number,
                **member,
            }


def _registrations(world: World) -> Iterator[dict[str, Any]]:
    held: dict[int, list[dict[str, Any]]] = {}
    tracks = zip(world.track_member, world.track_topic, world.track_partition, strict=True)
    for member, topic, partition in tracks:
        held.setdefault(int(member), []).append({"topic": world.topics[topic], "partition": int(partition)})
    for group, name in enumerate(world.groups):
        for place, member in enumerate(_members(world, group), start=group * len(world.members) // len(world.groups)):
            yield {
                "ts": world.start_ms + 1,
                "offsets_partition": world.offsets_partition[group],
                "epoch": _EPOCH,
                "sequence": place,
                "event": "registered",
                "group": name,
                "kind": "member",
                "generation": _CALM_REBALANCES,
                "partitions": held.get(place, []),
                **member,
            }


def _lifecycle(world: World) -> Iterator[dict[str, Any]]:
    planted = world.planted
    actors = [*(f"log-{n}" for n in range(LOGS)), *(f"gateway-{n}" for n in range(world.gateways))]
    actors += [f"offsets-{partition}" for partition in sorted(set(world.offsets_partition))]
    for actor in ("controller", "reconciler", *actors):
        for event, after_ms in (("starting", 0), ("serving", 900)):
            yield _life(actor, event, world.start_ms + after_ms, epoch=0)
    for event, after_ms in (("lost", 0), ("starting", 400), ("serving", planted.killed_for_ms)):
        yield _life(planted.killed_actor, event, planted.killed_at_ms + after_ms, epoch=1)


def _life(actor: str, event: str, ts: int, *, epoch: int) -> dict[str, Any]:
    seen_by = "controller" if event != "serving" else actor
    return {
        "ts": ts,
        "actor": actor,
        "kind": actor.partition("-")[0],
        "event": event,
        "seen_by": seen_by,
        "epoch": epoch,
    }


def _repairs(world: World) -> Iterator[dict[str, Any]]:
    for number in range(50):
        yield {
            "ts": world.start_ms + number * 60_000,
            "round": number,
            "kind": "kop",
            "dry_run": False,
            "outcome": "done",
            "path": f"/made-up/{number}",
            "group": world.groups[number % len(world.groups)],
        }


def _faults(world: World) -> Iterator[dict[str, Any]]:
    for event in ("injected", "fired"):
        planted = world.planted
        yield {
            "ts": planted.killed_at_ms,
            "fault": "1",
            "event": event,
            "action": "kill",
            "actor": planted.killed_actor,
        }


def _administration(world: World) -> Iterator[dict[str, Any]]:
    for number, group in enumerate(world.groups[:20]):
        yield {
            "ts": world.start_ms + number * 60_000,
            "gateway": 1,
            "door": "kafka",
            "principal": "User:made-up",
            "api": "OffsetCommit",
            "resource_type": "GROUP",
            "resource": group,
            "error": "NONE",
            "times": 1,
        }


def _whole(schema: pa.Schema, row: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the row with the schema's missing fields: null, no elements, 0, an empty text."""
    return {field.name: row.get(field.name, _nothing(field)) for field in schema}


def _nothing(field: pa.Field) -> Any:
    if field.nullable:
        return None
    if pa.types.is_list(field.type):
        return []
    return "" if pa.types.is_string(field.type) else 0
