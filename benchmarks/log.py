"""``python -m benchmarks.log``: opening a large log with and without its indexes, and checking reads."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import click

from benchmarks.cluster import machine
from benchmarks.report import Figures, output, output_options
from muster.actors.log.config import LogConfig
from muster.actors.log.files import index, snapshot
from muster.actors.log.format.batch import find_damage, iter_headers
from muster.actors.log.format.records import build_batch
from muster.actors.log.partition import PartitionLog
from muster.actors.runtime.process import now_ms

_TOPIC_ID = UUID(int=1)
_OVERHEAD_BYTES = 71
"""Size of a batch of one record without a key, beyond the value."""
_TOGETHER = 2_000
_MIB = 1 << 20
MIN_RATIO = 10.0


@click.command()
@click.option("--batches", default=1_000_000, show_default=True, help="Record batches in the log.")
@click.option("--batch-bytes", default=1_000, show_default=True, type=click.IntRange(100), help="Size of each.")
@click.option("--segment-bytes", default=128 << 20, show_default=True)
@click.option("--runs", default=5, show_default=True, type=click.IntRange(1), help="Openings of each kind; the median.")
@output_options
def main(
    batches: int, batch_bytes: int, segment_bytes: int, runs: int, json_file: Path | None, as_markdown: bool
) -> None:
    """Measure how fast a log opens. Exit code 1 if its indexes make it less than ten times as fast."""
    about, figures = machine(), Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        asyncio.run(
            _measure(Path(name) / "log-0", batches, batch_bytes, LogConfig(segment_bytes=segment_bytes), runs, figures)
        )
    output(figures, about, json_file, as_markdown)
    if not figures.met:
        raise SystemExit(1)


async def _measure(
    directory: Path, batches: int, batch_bytes: int, config: LogConfig, runs: int, figures: Figures
) -> None:
    epochs = iter(range(1, 1_000))
    part = f"a log of {batches:,} batches, {batches * batch_bytes / 1e9:.2g} GB"
    log = _open(directory, next(epochs), config)
    await _fill(log, batches, batch_bytes)
    _checks(log, part, figures)
    await log.close()
    with_index = await _opening_s(directory, epochs.__next__, config, runs, lambda: None)
    without = await _opening_s(directory, epochs.__next__, config, runs, lambda: _forget(directory))
    figures.add(part, "opened by its indexes", with_index, "s")
    figures.add(part, "opened without, every batch read and checked", without, "s")
    figures.add(part, "share of the time that is left", with_index / without, "", 1 / MIN_RATIO)
    figures.add(part, "index files", _index_mib(directory), "MiB")


async def _fill(log: PartitionLog, batches: int, batch_bytes: int) -> None:
    batch = bytes(build_batch([(None, bytes(batch_bytes - _OVERHEAD_BYTES))], now_ms(), 0, 0))
    for start in range(0, batches, _TOGETHER):
        appends = [log.enqueue(batch) for _ in range(min(_TOGETHER, batches - start))]
        await appends[-1].durable()


def _checks(log: PartitionLog, part: str, figures: Figures) -> None:
    """Measure the checks of all fetched data, in reads of 1 MiB."""
    step = max(log.high_watermark // 50, 1)
    read_s, check_s, count = 0.0, 0.0, 0
    for offset in range(0, log.high_watermark, step):
        began_s = time.perf_counter()
        content = log.read(offset, _MIB, at_least_one=True)
        read_s += time.perf_counter() - began_s
        began_s = time.perf_counter()
        assert find_damage(content, 0, log.high_watermark) is None
        check_s += time.perf_counter() - began_s
        count += sum(1 for _ in iter_headers(content))
    figures.add(part, "share of a read from the page cache that is its check", check_s / read_s, "")
    figures.add(part, "the check, for each batch", check_s / count * 1e6, "us")


async def _opening_s(
    directory: Path, epoch: Callable[[], int], config: LogConfig, runs: int, before: Callable[[], None]
) -> float:
    took_s = []
    for _ in range(runs):
        before()
        began_s = time.perf_counter()
        log = _open(directory, epoch(), config)
        took_s.append(time.perf_counter() - began_s)
        await log.close()
    return statistics.median(took_s)


def _index_mib(directory: Path) -> float:
    return sum(file.stat().st_size for file in directory.glob(f"*{index.SUFFIX}")) / _MIB


def _forget(directory: Path) -> None:
    for suffix in (index.SUFFIX, snapshot.SUFFIX):
        for file in directory.glob(f"*{suffix}"):
            file.unlink()


def _open(directory: Path, epoch: int, config: LogConfig) -> PartitionLog:
    return PartitionLog.open(directory, topic_id=_TOPIC_ID, epoch=epoch, config=config, now_ms=now_ms)


if __name__ == "__main__":
    main()
