"""``__consumer_offsets`` is cleaned by its own actor: the amount to load stays bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

from muster.actors.log.config import LogConfig
from muster.actors.wire.kafka.codec import ErrorCode
from tests.log.support import run
from tests.offsets.shell import Shell, commit, committed

PARTITIONS = 20
CONFIG = LogConfig(
    segment_bytes=20_000,
    cleanup_policy="compact",
    log_cleaner_backoff_ms=5,
    log_retention_check_interval_ms=5,
)


def replayed(shell: Shell) -> int:
    return sum(1 for _ in shell.log.replay())


def test_loading_is_bounded_however_many_commits_were_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, log=CONFIG)
        channel = await shell.serve(tmp_path / "socket-1")
        counts = []
        for round_number in range(1, 5):
            for number in range(100):
                codes = await commit(channel, round_number * 1000 + number, partitions=PARTITIONS)
                assert codes == {ErrorCode.none}
            while await shell.log.clean() is not None:
                pass
            counts.append(replayed(shell))
        written = 4 * 100 * PARTITIONS
        assert max(counts) < written // 8  # 8,000 commits; some hundred are in the active segment
        assert counts[-1] <= counts[0] + PARTITIONS * 3
        await shell.partition.stop()
        await shell.server.stop()
        again = Shell(tmp_path / "log", 2, log=CONFIG)
        channel = await again.serve(tmp_path / "socket-2")
        assert await committed(channel) == dict.fromkeys(range(PARTITIONS), 4099)
        assert replayed(again) == counts[-1]
        await again.partition.stop()
        await again.server.stop()

    run(scenario(), timeout_s=60)


def test_the_actor_cleans_its_log_by_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, log=CONFIG)
        channel = await shell.serve(tmp_path / "socket")
        for number in range(60):
            assert await commit(channel, number, partitions=PARTITIONS) == {ErrorCode.none}
        async with asyncio.timeout(30):
            cleaned = asyncio.Event()
            with shell.log.watching(lambda: cleaned.set() if list((tmp_path / "log").glob("*.cleaned.log")) else None):
                await commit(channel, 60, partitions=PARTITIONS)  # it may have finished already
                await cleaned.wait()
        assert await committed(channel) == dict.fromkeys(range(PARTITIONS), 60)
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario(), timeout_s=60)
