"""SIGKILL in the middle of compaction and retention, of a real process, repeatedly on one directory."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from muster.actors.log.partition import PartitionLog
from tests.log.support import TOPIC_ID, run
from tests.log.upkeep.kept_up import KEYS, config, now_ms

KILLS = 4


async def killed(directory: Path, epoch: int, number: int, after: int) -> int:
    """Run from that number on; returns the first number that was not acknowledged when the process was killed."""
    command = (sys.executable, "-m", "tests.log.upkeep.kept_up", str(directory), str(epoch), str(number))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        for _ in range(after):
            line = await process.stdout.readline()
            assert line, "it ended by itself"
            number = int(line)
    finally:
        process.kill()
        rest = await process.stdout.read()
        await process.wait()
    lines = [line for line in rest.splitlines(keepends=True) if line.endswith(b"\n")]
    return int(lines[-1]) if lines else number


def test_everything_acknowledged_is_there_after_each_kill(tmp_path: Path) -> None:
    draw = random.Random(0)

    async def main() -> None:
        acknowledged, cleaned = 0, set[Path]()
        for epoch in range(1, 2 * KILLS, 2):
            acknowledged = await killed(tmp_path / "t-0", epoch, acknowledged, draw.randint(50, 250))
            log = PartitionLog.open(
                tmp_path / "t-0", topic_id=TOPIC_ID, epoch=epoch + 1, config=config(epoch), now_ms=now_ms
            )
            found = [(record.offset, int(record.value or b"")) for record in log.replay()]
            assert log.high_watermark - acknowledged in (0, 2)  # the last batch may have been durable already
            assert all(offset == number for offset, number in found)
            assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
            last = range(max(log.high_watermark - KEYS, log.log_start_offset), log.high_watermark)
            assert set(last) <= {offset for offset, _ in found}  # the last record of each key
            acknowledged = log.high_watermark
            cleaned.update((tmp_path / "t-0").glob("*.cleaned.log"))
            await log.close()
        assert cleaned
        assert log.log_start_offset > 0

    run(main(), timeout_s=100)
