"""The rebalance journal of a running coordinator: what a broken table does to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.rebalance_history import RebalanceHistory
from actors.runtime import now_ms
from actors.tables.rebalances import RebalanceStore
from tests.test_offsets_shell import Shell, run


class BrokenStore(RebalanceStore):
    """Fails in a way that no disk does, some times."""

    def __init__(self, directory: Path, failures: int, flushed: asyncio.Event) -> None:
        super().__init__(directory, 0, now_ms=now_ms)
        self._failures = failures
        self._flushed = flushed
        self._loop = asyncio.get_running_loop()

    def flush(self) -> int:
        self._failures -= 1
        if self._failures >= 0:
            raise ZeroDivisionError
        rows = super().flush()
        self._loop.call_soon_threadsafe(self._flushed.set)
        return rows


def test_flushing_goes_on_whatever_went_wrong(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        flushed = asyncio.Event()
        store = BrokenStore(tmp_path / "metrics", 2, flushed)
        history = RebalanceHistory(shell.partition, store, flush_ms=1, now_ms=now_ms)
        history.start()
        await flushed.wait()
        await shell.partition.stop()
        await history.close()

    run(scenario)
