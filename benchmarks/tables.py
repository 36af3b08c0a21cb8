"""``python -m benchmarks.tables --out DIR``: tables of a made-up cluster, of any size, with planted facts.

One seed gives one world. Samples are computed as columns, in blocks of an hour, so the memory used does not depend on
the size of the table. The facts for jobs to find are in ``DIR/planted.json``: :class:`Planted`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import table_events
from benchmarks.table_world import HOUR_MS, Planted, World
from muster.actors.tables.parquet import COMPRESSION
from muster.actors.tables.rollup import hour_folder
from muster.actors.tables.schemas.samples import SAMPLES, SAMPLES_SCHEMA

_BLOCK_ROWS = 250_000
_MESSAGE_BYTES = 220
_UNATTRIBUTED = 0.01
_RESENT = 0.02


@dataclass(frozen=True, slots=True)
class Made:
    """The result of :func:`make`."""

    samples: int
    size_bytes: int
    planted: Planted


def make(out: Path, samples: int, *, hours: int = 24, seed: int = 1, end: datetime | None = None) -> Made:
    """Write the tables below ``out/metrics``, which must not exist yet; about ``samples`` rows of that table."""
    (out / "metrics").mkdir(parents=True)
    end_ms = int((end or datetime(2026, 5, 2, tzinfo=UTC)).timestamp() * 1000)
    world = World.of(samples, hours=hours, seed=seed, end_ms=end_ms)
    rows = sum(_write_hour(out, world, hour) for hour in range(hours))
    table_events.write(out / "metrics", world)
    (out / "planted.json").write_text(json.dumps(asdict(world.planted), indent=2))
    size = sum(file.stat().st_size for file in (out / "metrics").rglob("*.parquet"))
    return Made(samples=rows, size_bytes=size, planted=world.planted)


def _write_hour(out: Path, world: World, hour: int) -> int:
    """Write a file for each gateway; return the number of rows."""
    began_ms = world.start_ms + hour * HOUR_MS
    folder = out / "metrics" / SAMPLES / hour_folder(began_ms)
    folder.mkdir(parents=True)
    written = 0
    with ExitStack() as open_files:
        files = [
            open_files.enter_context(
                pq.ParquetWriter(
                    folder / f"gateway-{gateway}-bench-{hour}.parquet", SAMPLES_SCHEMA.arrow, **COMPRESSION
                )
            )
            for gateway in range(world.gateways)
        ]
        for block in _blocks(world, began_ms):
            for gateway, file in enumerate(files):
                rows = block.filter(pa.compute.equal(block["gateway"], gateway))
                file.write_table(rows)
                written += rows.num_rows
    return written


def _blocks(world: World, began_ms: int) -> Iterator[pa.Table]:
    """Yield the hour's rows: in each window, every track (a group on a partition) gets one run."""
    tracks = len(world.track_group)
    windows = world.windows()
    windows = windows[(windows >= began_ms) & (windows < began_ms + HOUR_MS)]
    at_once = max(1, _BLOCK_ROWS // tracks)
    chance = np.random.default_rng((world.seed, began_ms))
    for first in range(0, len(windows), at_once):
        yield _block(world, windows[first : first + at_once], chance)


def _block(world: World, windows: Any, chance: Any) -> pa.Table:
    tracks = len(world.track_group)
    shape = (len(windows), tracks)
    ts = windows[:, None] + chance.integers(0, max(1, world.window_ms // 2), shape)
    ts = np.minimum(ts, windows[:, None] // HOUR_MS * HOUR_MS + HOUR_MS - 1)
    alive = ~(world.track_stalled[None, :] & (windows[:, None] >= world.planted.stalled_from_ms))
    place = world.track_topic[None, :], world.track_partition[None, :]
    ends = world.offsets_after(windows[:, None], *place)
    first_offset = world.offsets_after(windows[:, None] - world.window_ms, *place)
    messages = ends - first_offset
    again = np.where(chance.random(shape) < _RESENT, np.minimum(messages, first_offset), 0)
    sent = messages + again
    gateway = np.broadcast_to(world.track_gateway[None, :], shape)
    in_hole = (gateway == world.planted.hole_gateway) & (ts >= world.planted.hole_from_ms)
    in_hole &= ts < world.planted.hole_to_ms
    nobody = chance.random(shape) < np.where(in_hole, world.planted.hole_share, _UNATTRIBUTED)
    keep = alive.ravel()
    track = np.broadcast_to(np.arange(tracks), shape).ravel()[keep]

    def kept(values: Any) -> Any:
        return values.ravel()[keep]

    unknown = kept(nobody)
    group = pa.array(world.track_group[track], mask=unknown, type=pa.int32())
    member = pa.array(world.track_member[track], mask=unknown, type=pa.int32())
    size = kept(sent) * _MESSAGE_BYTES
    columns = {
        "ts": pa.array(kept(ts), pa.timestamp("ms", tz="UTC")),
        "last_ts": pa.array(kept(ts) + world.window_ms // 4, pa.timestamp("ms", tz="UTC")),
        "gateway": pa.array(kept(gateway), pa.int32()),
        "group": _named(group, world.groups),
        "member_id": _named(member, world.members),
        "client_id": _named(pa.array(world.track_group[track], pa.int32()), world.client_ids),
        "host": _named(pa.array(world.track_member[track] % len(world.hosts), pa.int32()), world.hosts),
        "topic": _named(pa.array(world.track_topic[track], pa.int32()), world.topics),
        "partition": pa.array(world.track_partition[track], pa.int32()),
        "evidence": _named(pa.array(np.where(unknown, 1, 0), pa.int32()), ["assignment", "none"]),
        "reason": _named(pa.array(np.zeros(len(track), np.int32), mask=~unknown), ["no_group"]),
        "messages": pa.array(kept(sent), pa.int64()),
        "bytes": pa.array(size, pa.int64()),
        "fetches": pa.array(kept(messages) // 50 + 1, pa.int64()),
        "first_offset": pa.array(kept(first_offset - again), pa.int64()),
        "last_offset": pa.array(kept(ends) - 1, pa.int64()),
        "control_records": pa.array(np.zeros(len(track)), pa.int64()),
        "aborted_records": pa.array(np.zeros(len(track)), pa.int64()),
    }
    return pa.table([columns[field.name] for field in SAMPLES_SCHEMA.arrow], schema=SAMPLES_SCHEMA.arrow)


def _named(places: pa.Array, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(places, pa.array(names, pa.string())).cast(pa.string())


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new storage directory.")
@click.option("--samples", type=click.FloatRange(0.01, 1000), default=1.0, show_default=True, help="Rows, in millions.")
@click.option("--hours", type=click.IntRange(2, 24 * 366), default=24, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(out: Path, samples: float, hours: int, seed: int) -> None:
    """Write the tables of a made-up cluster to OUT/metrics."""
    if (out / "metrics").exists():
        raise click.UsageError(f"{out} has tables already")
    made = make(out, int(samples * 1e6), hours=hours, seed=seed)
    click.echo(f"{made.samples:,} samples, {made.size_bytes / 1e6:,.0f} MB in all tables, in {out}")


if __name__ == "__main__":
    main()
