"""``python -m benchmarks.sample_store``: the cost of a sample in mapped slots, and in SQLite in WAL mode.

Both keep it across SIGKILL before the response is sent, and sync nothing. 100 runs grow in turn, like those of a
gateway's consumers. The figure is processor time of this process, the best of five rounds.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.report import Figures
from muster.actors.tables.spool import Run, Sample, SampleStore

_RUNS, _ROUNDS = 100, 5
_NOON_MS = 1_700_049_600_000
_HEAD = Sample(
    ts_ms=_NOON_MS,
    group="billing",
    member_id="m-1",
    client_id="rdkafka",
    host="127.0.0.1",
    topic="flights",
    partition=0,
    evidence="assignment",
    reason=None,
    messages=10,
    bytes=1_000,
    first_offset=0,
    last_offset=9,
)
_TABLE = """CREATE TABLE samples (run INTEGER PRIMARY KEY, "group" TEXT, member_id TEXT, client_id TEXT, host TEXT,
topic TEXT, partition INTEGER, evidence TEXT, ts_ms INTEGER, first_offset INTEGER, last_ts_ms INTEGER,
messages INTEGER, bytes INTEGER, fetches INTEGER, last_offset INTEGER)"""
_BEGIN = "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)"
_EXTEND = """UPDATE samples SET last_ts_ms = ?, messages = messages + ?, bytes = bytes + ?, fetches = fetches + 1,
last_offset = ? WHERE run = ? AND last_offset = ?"""


def in_slots(directory: Path) -> Callable[[int, int], None]:
    """Return a function that extends the run of that number by one sample from that offset on."""
    store = SampleStore(directory, 1, flush_ms=3_600_000, now_ms=lambda: _NOON_MS)
    runs: list[Run] = []
    for partition in range(_RUNS):
        run = store.add(replace(_HEAD, partition=partition))
        assert run is not None
        runs.append(run)

    def extend(run: int, offset: int) -> None:
        assert runs[run].extend(_NOON_MS, 10, 1_000, offset, offset + 9)

    return extend


def in_sqlite(directory: Path) -> Callable[[int, int], None]:
    """Return that function for a database: each sample is a transaction, which the file has before the next one."""
    database = sqlite3.connect(directory / "samples.db", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
        database.execute(f"PRAGMA {pragma}")
    database.execute(_TABLE)
    for run in range(_RUNS):
        head = (_HEAD.group, _HEAD.member_id, _HEAD.client_id, _HEAD.host, _HEAD.topic, run, _HEAD.evidence)
        database.execute(_BEGIN, (run, *head, _NOON_MS, 0, _NOON_MS, 10, 1_000, 9))

    def extend(run: int, offset: int) -> None:
        done = database.execute(_EXTEND, (_NOON_MS, 10, 1_000, offset + 9, run, offset - 1))
        assert done.rowcount == 1

    return extend


def cost_us(extend: Callable[[int, int], None], samples: int) -> float:
    """Return the processor time of a sample, the best round's."""
    rounds, offset = [], 10
    for _ in range(_ROUNDS):
        began_s = time.process_time()
        for _ in range(samples // _RUNS):
            for run in range(_RUNS):
                extend(run, offset)
            offset += 10
        rounds.append((time.process_time() - began_s) / samples * 1e6)
    return min(rounds)


@click.command()
@click.option("--samples", default=20_000, show_default=True, help="In each round.")
def main(samples: int) -> None:
    """Measure the cost of a sample in mapped slots, and in SQLite in WAL mode."""
    figures = Figures()
    for name, store in (("mapped slots", in_slots), ("SQLite, WAL", in_sqlite)):
        with tempfile.TemporaryDirectory() as directory:
            figures.add(name, "processor time of a sample", cost_us(store(Path(directory)), samples), "us")
    for figure in figures:
        click.echo(f"{figure.part}: {figure.shown}")


if __name__ == "__main__":
    main()
