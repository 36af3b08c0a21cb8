"""The rebalance journal of a running coordinator, with a broken or a large table."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from muster.actors.offsets.history.rebalances import MAX_BYTES, RebalanceHistory
from muster.actors.runtime.process import now_ms
from muster.actors.tables.rebalances import RebalanceStore, encode
from tests.offsets.shell import Shell, run
from tests.tables.rebalances import A, entry


class BrokenStore(RebalanceStore):
    """Fails a number of times, in a way that no disk does."""

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


@pytest.mark.parametrize("added", [50, 100_000])
def test_the_response_about_many_large_rebalances_is_bounded(tmp_path: Path, added: int) -> None:
    """An entry that is larger by itself is written all the same."""
    members = tuple(A for _ in range(added))

    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        store = RebalanceStore(tmp_path / "metrics", 0, now_ms=now_ms)
        history = RebalanceHistory(shell.partition, store, flush_ms=60_000, now_ms=now_ms)
        numbers = range(1, 4 + 3 * MAX_BYTES // len(encode(entry(1, added=members))))
        for number in numbers:
            each = entry(number, epoch=0, added=members)
            store.add(each, encode(each))
        response = await history.history({"group": "billing", "limit": 10_000})
        returned = [each["number"] for each in response["entries"]]
        assert returned == [*reversed(numbers)][: len(returned)]
        assert 1 <= len(returned) < len(numbers)
        assert len(json.dumps(response)) <= 1.2 * MAX_BYTES or len(returned) == 1
        await shell.partition.stop()
        await history.close()

    run(scenario)
