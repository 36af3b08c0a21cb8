"""``python -m benchmarks wal``: a log in object storage, and one on this disk beside it: appends, and its opening."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from uuid import UUID

import click

from benchmarks.cluster import machine
from benchmarks.report import Figures, output, output_options, percentile
from muster.actors.log.bucket.role import RoleLogs
from muster.actors.log.config import LogConfig
from muster.actors.log.format.records import build_batch
from muster.actors.log.partition import PartitionLog
from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import Condition, ObjectStore
from muster.actors.runtime.process import now_ms
from tests.object_storage.faulty import faulty
from tests.object_storage.seaweedfs import seaweedfs

_TOPIC_ID = UUID(int=1)
_VALUE_BYTES = 929
"""For a batch of 1,000 bytes."""
_TOGETHER = 32
_MONTH_S = 30 * 24 * 3600
_BUCKET = Location.parse("s3://muster-bench")

Append = Callable[[], Awaitable[object]]


@click.command()
@click.option("--seconds", default=10.0, show_default=True, help="Duration of each load.")
@click.option("--together", default=100, show_default=True, help="Producers that wait for their append, each.")
@click.option("--put-price", default=0.005, show_default=True, help="Dollars for 1,000 PUTs; S3's list price.")
@click.option("--recover-mib", default=1024, show_default=True, help="Size of the log that is opened elsewhere.")
@output_options
def main(
    seconds: float, together: int, put_price: float, recover_mib: int, json_file: Path | None, as_markdown: bool
) -> None:
    """Measure how long an append of 1 KB takes until it is acknowledged, how many there are, and what its PUTs cost.

    And how long a role with a large log takes to be opened: by a node that has nothing of it, and by one that has.
    """
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
                        role = f"log-{delay_ms}-{interval_ms}-{producers}"
                        run = _in_bucket(Path(name) / role, role, interval_ms, producers, seconds)
                        waits_s, puts, cpu_s = asyncio.run(run)
                        part = f"{where}: {_loaded(producers)}"
                        # With a delay, the proxy is in this process, too.
                        _add(figures, part, waits_s, seconds, None if delay_ms else cpu_s)
                        figures.add(part, "PUTs", puts / seconds, "/s")
                        dollars = puts / seconds * _MONTH_S / 1000 * put_price
                        figures.add(part, "its PUTs in 30 days, for each such role", dollars, "$")
        os.environ.update(service.environment())
        asyncio.run(_recovery(Path(name), recover_mib, figures))
    output(figures, machine(), json_file, as_markdown)


def _loaded(producers: int) -> str:
    return "one producer" if producers == 1 else f"{producers} producers"


async def _on_disk(directory: Path, producers: int, seconds: float, figures: Figures) -> None:
    log = PartitionLog.open(directory, topic_id=_TOPIC_ID, epoch=1, config=LogConfig(), now_ms=now_ms)
    batch = bytes(build_batch([(None, bytes(_VALUE_BYTES))], now_ms(), 0, 0))
    waits_s, cpu_s = await _load(lambda: log.append(batch), producers, seconds)
    await log.close()
    _add(figures, f"a log on this disk: {_loaded(producers)}", waits_s, seconds, cpu_s)


async def _in_bucket(
    folder: Path, role: str, interval_ms: int, producers: int, seconds: float
) -> tuple[list[float], int, float]:
    role_logs = await _opened_role(folder, role, 1, interval_ms)
    log = await _opened(role_logs, role, 1)
    batch = bytes(build_batch([(None, bytes(_VALUE_BYTES))], now_ms(), 0, 0))
    before = role_logs.wal.next_number
    waits_s, cpu_s = await _load(lambda: log.append(batch), producers, seconds)
    puts = role_logs.wal.next_number - before
    await log.close()
    await role_logs.close()
    return waits_s, puts, cpu_s


async def _opened_role(folder: Path, role: str, epoch: int, interval_ms: int) -> RoleLogs:
    bucket = Bucket(_BUCKET)
    with suppress(Condition):
        await bucket.create(f"made-{role}", b"")
    return await RoleLogs.open(ObjectStore(bucket), role, epoch, folder, flush_interval_ms=interval_ms)


async def _opened(role: RoleLogs, topic: str, epoch: int) -> PartitionLog:
    return await role.open_log(topic, 0, topic_id=_TOPIC_ID, epoch=epoch, config=LogConfig(), now_ms=now_ms)


async def _recovery(folder: Path, size_mib: int, figures: Figures) -> None:
    """Fill a log, leave it as a process that is killed does, and open it elsewhere."""
    role = await _opened_role(folder / "before", "log-recovery", 1, 0)
    log = await _opened(role, "t", 1)
    batch = bytes(build_batch([(None, secrets.token_bytes(1000))] * 256, now_ms(), 0, 0))
    for _ in range(size_mib * 4 // _TOGETHER):
        await asyncio.gather(*(log.append(batch) for _ in range(_TOGETHER)))
    end = log.log_end_offset
    role.abandon()
    for part, name in (("on another node", "after"), ("on the node that had it", "before")):
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        epoch = 2 if name == "after" else 3
        role = await _opened_role(folder / name, "log-recovery", epoch, 0)
        opened = await _opened(role, "t", epoch)
        assert opened.log_end_offset == end
        part = f"a role with {size_mib} MiB is opened {part}"
        figures.add(part, "until it serves", time.monotonic() - began_s, "s")
        figures.add(part, "processor time", time.process_time() - began_cpu_s, "s")
        role.abandon()


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
