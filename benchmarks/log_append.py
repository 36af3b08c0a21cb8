"""Speed of appends to one partition's log: python benchmarks/log_append.py [directory]

Each row appends batches of one size from that many concurrent callers, each of which waits until its batch is durable
before it sends the next. ``syncs`` is how many ``fdatasync`` calls that took. The directory should be on the disk
that matters; the default is the current one.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import uvloop
from rich.console import Console
from rich.table import Table

from muster.actors.log import LogConfig, PartitionLog
from muster.actors.log.files.disk import Disk
from muster.actors.log.format.records import build_batch

APPENDS = 5_000
BATCH_BYTES = (200, 16_384, 262_144)
CALLERS = (1, 10, 100, 1000)
MAX_BYTES_PER_ROW = 512 << 20


class CountingDisk(Disk):
    syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


async def measure(directory: Path, batch_bytes: int, callers: int) -> tuple[str, ...]:
    batch = bytes(build_batch([(None, bytes(batch_bytes - 80))], 0, 0, 0))
    appends = min(APPENDS if callers > 1 else APPENDS // 5, MAX_BYTES_PER_ROW // len(batch))
    disk = CountingDisk()
    log = PartitionLog.open(directory, topic_id=UUID(int=1), epoch=1, config=LogConfig(), now_ms=lambda: 0, disk=disk)
    latencies: list[float] = []

    async def caller() -> None:
        for _ in range(max(appends // callers, 1)):
            start = time.perf_counter()
            await log.append(batch)
            latencies.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    seconds = time.perf_counter() - start
    await log.delete()
    latencies.sort()
    return (
        f"{len(batch):,}",
        f"{callers:,}",
        f"{len(latencies) / seconds:,.0f}",
        f"{len(latencies) * len(batch) / seconds / 1e6:,.1f}",
        f"{latencies[len(latencies) // 2] * 1e3:.2f}",
        f"{latencies[len(latencies) * 99 // 100] * 1e3:.2f}",
        f"{disk.syncs:,}",
    )


async def main(parent: Path) -> None:
    table = Table("batch bytes", "callers", "appends/s", "MB/s", "p50 ms", "p99 ms", "syncs", title="log append")
    for column in table.columns:
        column.justify = "right"
    with tempfile.TemporaryDirectory(dir=parent, prefix="log-append-") as directory:
        for batch_bytes in BATCH_BYTES:
            for callers in CALLERS:
                table.add_row(*await measure(Path(directory) / f"t-{batch_bytes}-{callers}", batch_bytes, callers))
    Console().print(table)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()))
