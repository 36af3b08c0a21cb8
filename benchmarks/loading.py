"""Time that a partition takes to load before it serves."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from benchmarks.report import Figures
from muster.actors.config import MusterConfig, group_config, offsets_log_config
from muster.actors.group.codec.records import CommittedOffset, OffsetKey, offset_record
from muster.actors.group.types import GroupId
from muster.actors.log.partition import PartitionLog
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.process import now_ms
from muster.placement.mapping.registration import RegistrationUpdate

LIMIT_S = 2.0
_GROUPS = 400
_TOPIC_PARTITIONS = 50
_COMMITTED_TOGETHER = 50
_OVERWRITES = 10
_RUNS = 3
_PENDING = 1000
_TOPIC_ID = UUID(int=1)
_ROOT = Path(__file__).parents[1]


def loading(folder: Path, offsets: int, figures: Figures) -> None:
    """Load in separate processes: commits of one offset, of many offsets, and offsets that were overwritten."""
    part = f"loading {offsets:,} offsets"
    one, many, over = (folder / name for name in ("one", "many", "over"))
    asyncio.run(_fill(one, offsets, 1, together=1))
    took_s, used_s = _median_s(one)
    figures.add(part, "committed one by one", took_s, "s", LIMIT_S)
    figures.add(part, "the same, processor time", used_s, "s")
    asyncio.run(_fill(many, offsets, 1, together=_COMMITTED_TOGETHER))
    took_s, used_s = _median_s(many)
    figures.add(part, f"committed {_COMMITTED_TOGETHER} at a time", took_s, "s", LIMIT_S)
    figures.add(part, "the same, processor time", used_s, "s")
    asyncio.run(_fill(over, offsets // _OVERWRITES, _OVERWRITES, together=_COMMITTED_TOGETHER))
    took_s, used_s = _median_s(over)
    figures.add(part, f"a tenth of them, each committed {_OVERWRITES} times", took_s, "s", LIMIT_S)
    figures.add(part, "processor time for each overwritten record of the open segment", used_s / offsets * 1e6, "us")


async def _fill(directory: Path, offsets: int, times: int, *, together: int) -> None:
    """Commit every offset that many times, ``together`` in one request."""
    log = _open(directory, epoch=1)
    pending: list[asyncio.Task[int]] = []
    for _ in range(times):
        records = list(_records(offsets))
        for start in range(0, len(records), together):
            batch = records[start : start + together]
            pending.append(asyncio.create_task(log.append_records(batch, now_ms())))
            if len(pending) == _PENDING:
                await asyncio.gather(*pending)
                pending.clear()
    await asyncio.gather(*pending)
    await log.close()


def _records(offsets: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield commits of some hundred groups, group by group as consumers commit: all partitions of a consumer at
    once."""
    each = -(-offsets // _GROUPS)
    for number in range(offsets):
        group, index = divmod(number, each)
        topic, partition = divmod(index, _TOPIC_PARTITIONS)
        key = OffsetKey(GroupId(f"group-{group}"), f"topic-{topic}", partition)
        record = offset_record(key, CommittedOffset(offset=number, leader_epoch=1, commit_timestamp_ms=now_ms()))
        yield record.key, record.value


def _open(directory: Path, epoch: int) -> PartitionLog:
    config = offsets_log_config(MusterConfig.from_properties({}))
    return PartitionLog.open(directory, topic_id=_TOPIC_ID, epoch=epoch, config=config, now_ms=now_ms)


def _median_s(directory: Path) -> tuple[float, float]:
    """Return wall-clock and processor seconds (medians) of a few loads, each in a process that does nothing else."""
    took_s, used_s = [], []
    for epoch in range(2, 2 + _RUNS):
        command = [sys.executable, "-m", "benchmarks.loading", str(directory), str(epoch)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=_ROOT)
        took, used = done.stdout.split()
        took_s.append(float(took))
        used_s.append(float(used))
    return statistics.median(took_s), statistics.median(used_s)


class _NoSink:
    def put(self, updates: tuple[RegistrationUpdate, ...]) -> None:
        """Do nothing: there are no members."""


async def _load(directory: Path, epoch: int) -> tuple[float, float]:
    """Load the directory into a serving partition: open the log, replay, activate. Returns seconds as ``_median_s``."""
    began_s, used_s = time.perf_counter(), time.process_time()
    core = OffsetsPartition(
        partition=0,
        epoch=epoch,
        config=group_config(MusterConfig.from_properties({})),
        partition_log=_open(directory, epoch),
        sink=_NoSink(),
        topic_id=_TOPIC_ID,
        fail=lambda: os._exit(1),
    )
    core.load()
    core.activate()
    took = time.perf_counter() - began_s, time.process_time() - used_s
    await core.stop()
    return took


def main(arguments: Sequence[str]) -> None:
    """Print the seconds and the seconds of processor time: ``python -m benchmarks.loading DIRECTORY EPOCH``."""
    print(*asyncio.run(_load(Path(arguments[0]), int(arguments[1]))))


if __name__ == "__main__":
    main(sys.argv[1:])
