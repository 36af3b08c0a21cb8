"""``python -m benchmarks wal``: appends to a write-ahead log in object storage, and to a log on this disk beside it."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from uuid import UUID

import click

from benchmarks.cluster import machine
from benchmarks.report import Figures, output, output_options, percentile
from muster.actors.log.config import LogConfig
from muster.actors.log.format.records import build_batch
from muster.actors.log.partition import PartitionLog
from muster.actors.log.wal.objects import Entry
from muster.actors.log.wal.opening import open_wal
from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import ObjectStore
from muster.actors.runtime.process import now_ms
from tests.object_storage.faulty import faulty
from tests.object_storage.seaweedfs import seaweedfs

_TOPIC_ID = UUID(int=1)
_VALUE_BYTES = 929
"""For a batch of 1,000 bytes."""
_MONTH_S = 30 * 24 * 3600
_BUCKET = Location.parse("s3://muster-bench")

Append = Callable[[], Awaitable[object]]


@click.command()
@click.option("--seconds", default=10.0, show_default=True, help="Duration of each load.")
@click.option("--together", default=100, show_default=True, help="Producers that wait for their append, each.")
@click.option("--put-price", default=0.005, show_default=True, help="Dollars for 1,000 PUTs; S3's list price.")
@output_options
def main(seconds: float, together: int, put_price: float, json_file: Path | None, as_markdown: bool) -> None:
    """Measure how long an append of 1 KB takes until it is acknowledged, how many there are, and what its PUTs cost."""
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name, seaweedfs(Path(name)) as service:
        for producers in (1, together):
            asyncio.run(_on_disk(Path(name) / f"log-{producers}", producers, seconds, figures))
        for delay_ms in (0, 20, 100):
            with faulty(service.endpoint, delay_s=delay_ms / 1000) if delay_ms else nullcontext() as proxy:
                os.environ.update(service.environment(proxy.url if proxy else None))
                for interval_ms in (0, 50, 250):
                    for producers in (1, together):
                        where = f"object storage, {delay_ms} ms away, an object every {interval_ms} ms at most"
                        run = _in_bucket(f"log-{delay_ms}-{interval_ms}-{producers}", interval_ms, producers, seconds)
                        waits_s, puts, cpu_s = asyncio.run(run)
                        part = f"{where}: {_loaded(producers)}"
                        # With a delay, the proxy is in this process, too.
                        _add(figures, part, waits_s, seconds, None if delay_ms else cpu_s)
                        figures.add(part, "PUTs", puts / seconds, "/s")
                        dollars = puts / seconds * _MONTH_S / 1000 * put_price
                        figures.add(part, "its PUTs in 30 days, for each such role", dollars, "$")
    output(figures, machine(), json_file, as_markdown)


def _loaded(producers: int) -> str:
    return "one producer" if producers == 1 else f"{producers} producers"


async def _on_disk(directory: Path, producers: int, seconds: float, figures: Figures) -> None:
    log = PartitionLog.open(directory, topic_id=_TOPIC_ID, epoch=1, config=LogConfig(), now_ms=now_ms)
    batch = bytes(build_batch([(None, bytes(_VALUE_BYTES))], now_ms(), 0, 0))
    waits_s, cpu_s = await _load(lambda: log.append(batch), producers, seconds)
    await log.close()
    _add(figures, f"a log on this disk: {_loaded(producers)}", waits_s, seconds, cpu_s)


async def _in_bucket(role: str, interval_ms: int, producers: int, seconds: float) -> tuple[list[float], int, float]:
    bucket = Bucket(_BUCKET)
    await bucket.create(f"made-{role}", b"")
    wal, _ = await open_wal(ObjectStore(bucket), role, 1, flush_interval_ms=interval_ms)
    batch = bytes(build_batch([(None, bytes(_VALUE_BYTES))], now_ms(), 0, 0))
    before = wal.next_number
    waits_s, cpu_s = await _load(lambda: wal.append([Entry(_TOPIC_ID, 0, 1, None, batch)]), producers, seconds)
    await wal.close()
    return waits_s, wal.next_number - before, cpu_s


async def _load(append: Append, producers: int, seconds: float) -> tuple[list[float], float]:
    """Return how long each append waited, and the processor time of this process, both in seconds."""
    waits_s: list[float] = []
    until_s = time.monotonic() + seconds
    began_cpu_s = time.process_time()

    async def produce() -> None:
        while (began_s := time.monotonic()) < until_s:
            await append()
            waits_s.append(time.monotonic() - began_s)

    await asyncio.gather(*(produce() for _ in range(producers)))
    return waits_s, time.process_time() - began_cpu_s


def _add(figures: Figures, part: str, waits_s: list[float], seconds: float, cpu_s: float | None) -> None:
    figures.add(part, "acknowledged after, p50", percentile(waits_s, 50) * 1000, "ms")
    figures.add(part, "acknowledged after, p99", percentile(waits_s, 99) * 1000, "ms")
    figures.add(part, "appends", len(waits_s) / seconds, "/s")
    if cpu_s is not None:
        figures.add(part, "processor time of an append", cpu_s / len(waits_s) * 1e6, "us")


if __name__ == "__main__":
    main()
