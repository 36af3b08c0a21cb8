"""Any history of produce, compact, retention, DeleteRecords, crashes and activations, against a model of the log.

Replay one: pytest "tests/log/test_any_history.py::test_any_history[17]".
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from contextlib import suppress
from pathlib import Path

import pytest

from muster.actors.log import committer
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import OutOfOrderSequence, StorageError
from muster.actors.log.format.records import Record
from muster.actors.log.partition import PartitionLog
from tests.log.steps import Broken, Clock, SteppingDisk, opened
from tests.log.support import NOW_MS, run
from tests.log.upkeep.test_cleaner import Pairs, keyed
from tests.seeds import seeds

pytestmark = pytest.mark.usefixtures("either_storage")

KEYS = 12
STEPS = 60
DELETE_RETENTION_MS = 5_000


class World:
    """A log, what was acknowledged, and what may have been removed."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.clock = Clock()
        self.epoch = 0
        self.sequence = 0
        self.acknowledged: dict[int, tuple[bytes, bytes | None]] = {}
        """By offset; including what was superseded or deleted since."""
        self.lowest_start = 0
        """Acknowledged."""
        self.disk = SteppingDisk()
        self.log: PartitionLog
        self.open()

    def open(self) -> None:
        self.epoch += 1
        self.disk = SteppingDisk()
        self.disk.is_on = True
        config = LogConfig(
            segment_bytes=self.random.choice([300, 600, 1500]),
            index_interval_bytes=self.random.choice([100, 4096]),
            cleanup_policy="compact,delete",
            retention_ms=self.random.choice([-1, 20_000, 60_000]),
            min_cleanable_dirty_ratio=0,
            delete_retention_ms=DELETE_RETENTION_MS,
            log_cleaner_dedupe_buffer_size=self.random.choice([3, 1000]) * 160,
        )
        self.log = opened(self.directory, self.epoch, config, self.disk, self.clock)

    async def step(self) -> None:
        name = self.random.choice(
            ["produce"] * 6
            + ["tombstone", "compact", "compact", "retention", "delete", "wait", "reopen", "crash", "both"]
        )
        await getattr(self, f"do_{name}")()

    async def do_produce(self) -> None:
        pairs: Pairs = [(self.key(), b"%d" % self.random.randrange(10**6)) for _ in range(self.random.randint(1, 4))]
        await self.append(pairs)

    async def do_tombstone(self) -> None:
        await self.append([(self.key(), None)])

    async def do_compact(self) -> None:
        await self.log.clean()

    async def do_retention(self) -> None:
        await self.log.apply_retention()

    async def do_delete(self) -> None:
        offset = self.random.randint(self.log.log_start_offset, self.log.high_watermark)
        self.lowest_start = max(self.lowest_start, offset)
        assert await self.log.delete_records(offset) >= offset

    async def do_wait(self) -> None:
        self.clock.now_ms += self.random.choice([1, 3_000, 10_000])

    async def do_reopen(self) -> None:
        await self.log.close()
        self.open()

    async def do_both(self) -> None:
        """Concurrent operations."""
        await asyncio.gather(self.log.clean(), self.do_produce(), self.log.apply_retention(), self.do_delete())

    async def do_crash(self) -> None:
        """Stop the disk in the middle of one of them; another activation continues."""
        self.disk.count = 0
        self.disk.before = Broken(self.random.randint(0, 12), for_ever=True)
        work = self.random.choice([self.log.clean, self.log.apply_retention])
        with suppress(StorageError):
            await work()
        before = self.log
        self.open()
        await before.close()

    def key(self) -> bytes:
        return b"%d" % self.random.randrange(KEYS)

    async def append(self, pairs: Pairs) -> None:
        batch = keyed(pairs, producer=(1, 0, self.sequence), at_ms=self.clock.now_ms)
        result = await self.log.append(batch)
        assert not result.duplicate
        self.sequence += len(pairs)
        for index, (key, value) in enumerate(pairs):
            assert key is not None
            self.acknowledged[result.base_offset + index] = (key, value)
        if self.random.random() < 0.2:
            again = await self.log.append(batch)
            assert (again.base_offset, again.duplicate) == (result.base_offset, True)

    def check(self) -> None:
        records = list(self.log.replay())
        start, end = self.log.log_start_offset, self.log.high_watermark
        assert end == max(self.acknowledged, default=-1) + 1
        assert self.lowest_start <= start <= end
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        assert all(start <= offset < end for offset in offsets)
        for record in records:
            assert self.acknowledged[record.offset] == (record.key, record.value)
        self.check_latest(records, start)
        self.check_times(records)

    def check_latest(self, records: list[Record], start: int) -> None:
        """Check that the last record of each key is there; a tombstone may have been removed."""
        last = {key: offset for offset, (key, _) in sorted(self.acknowledged.items()) if offset >= start}
        found = {record.offset for record in records}
        for key, offset in last.items():
            assert offset in found or self.acknowledged[offset][1] is None, (key, offset)

    def check_times(self, records: list[Record]) -> None:
        for record in records:
            assert NOW_MS <= record.timestamp_ms <= self.clock.now_ms + 4


@pytest.mark.parametrize("seed", seeds(few=5, many=25, fresh=25))
def test_any_history(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0)

    async def main() -> None:
        world = World(tmp_path / "t-0", seed)
        for _ in range(STEPS):
            await world.step()
            world.check()
        with pytest.raises(OutOfOrderSequence):
            world.log.enqueue(keyed([(b"a", b"1")], producer=(1, 0, world.sequence + 5)))
        world.log.config = dataclasses.replace(world.log.config, retention_ms=-1)
        await world.log._writer.roll()
        while await world.log.clean() is not None:
            world.check()
        assert len({record.key for record in world.log.replay()}) == len(list(world.log.replay()))
        await world.do_reopen()
        world.check()
        await world.log.close()

    run(main(), timeout_s=60)
