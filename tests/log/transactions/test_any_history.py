"""Any history of transactions, markers, cleaning, DeleteRecords, crashes and restarts, against a model of the log.

Replay one: pytest "tests/log/transactions/test_any_history.py::test_any_history[17]".
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from muster.actors.log import committer
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, StorageError
from muster.actors.log.partition import PartitionLog
from tests.log.steps import Broken, Clock, SteppingDisk, opened
from tests.log.support import lose_what_is_not_synced, run
from tests.log.transactions.support import ALL_BYTES, client_view, marker
from tests.seeds import seeds

pytestmark = pytest.mark.usefixtures("either_storage")

KEYS = 6
STEPS = 70
DELETE_RETENTION_MS = 5_000


@dataclass
class Producer:
    id: int
    bumps: bool
    """Whether each of its transactions has an epoch of its own."""
    epoch: int = 0
    sequence: int = 0
    decision: int = 0
    open: list[int] = field(default_factory=list)
    """Offsets of the records of its open transaction."""


class World:
    """A log, and what was acknowledged."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.clock = Clock()
        self.leader_epoch = 0
        self.producers = [Producer(1, bumps=False), Producer(2, bumps=True), Producer(3, bumps=False)]
        self.records: dict[int, tuple[bytes, bytes]] = {}
        """Key and value by offset."""
        self.committed: set[int] = set()
        """Offsets."""
        self.may_forget = False
        """Whether what a producer wrote last may be unknown: its batches were deleted, then a snapshot was lost."""
        self.count = 0
        self.log: PartitionLog
        self.open()

    def open(self) -> None:
        self.leader_epoch += 1
        self.disk = SteppingDisk()
        self.disk.is_on = True
        config = LogConfig(
            segment_bytes=self.random.choice([300, 600, 1500]),
            index_interval_bytes=self.random.choice([100, 4096]),
            cleanup_policy="compact,delete",
            retention_ms=-1,
            min_cleanable_dirty_ratio=0,
            delete_retention_ms=DELETE_RETENTION_MS,
            log_cleaner_dedupe_buffer_size=self.random.choice([3, 1000]) * 160,
        )
        self.log = opened(self.directory, self.leader_epoch, config, self.disk, self.clock)

    async def step(self) -> None:
        name = self.random.choice(
            ["write"] * 8
            + ["end"] * 5
            + ["end_again", "stale", "plain", "plain", "clean", "clean", "delete", "wait", "reopen", "crash", "power"]
        )
        await getattr(self, f"do_{name}")()

    def batch(self, producer: Producer | None) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        pairs = []
        identity = (producer.id, producer.epoch, producer.sequence) if producer is not None else (-1, -1, -1)
        builder = DefaultRecordBatchBuilder(2, 0, producer is not None, *identity, 1 << 24)
        for index in range(self.random.randint(1, 3)):
            self.count += 1
            pairs.append((b"%d" % self.random.randrange(KEYS), b"%d" % self.count))
            builder.append(index, self.clock.now_ms, *pairs[-1], [])
        return bytes(builder.build()), pairs

    def acknowledged(self, base_offset: int, pairs: list[tuple[bytes, bytes]]) -> list[int]:
        offsets = list(range(base_offset, base_offset + len(pairs)))
        self.records.update(zip(offsets, pairs, strict=True))
        return offsets

    async def do_write(self) -> None:
        producer = self.random.choice(self.producers)
        content, pairs = self.batch(producer)
        guard = self.log.guard_for(producer.id, producer.epoch, producer.sequence)
        assert guard is None or not self.readable(producer), "its transaction is open"
        try:
            result = await self.log.enqueue(content, guard).durable()
        except OutOfOrderSequence:
            assert self.may_forget
            await self.end(producer, commits=False, bumps=True)
            return
        assert not result.duplicate
        producer.sequence += len(pairs)
        producer.open += self.acknowledged(result.base_offset, pairs)
        if self.random.random() < 0.2:
            again = await self.log.enqueue(content).durable()
            assert (again.base_offset, again.duplicate) == (result.base_offset, True)

    async def do_plain(self) -> None:
        content, pairs = self.batch(None)
        self.committed.update(self.acknowledged((await self.log.append(content)).base_offset, pairs))

    async def do_end(self) -> None:
        producer = self.random.choice(self.producers)
        await self.end(producer, commits=self.random.random() < 0.5, bumps=producer.bumps)

    async def end(self, producer: Producer, *, commits: bool, bumps: bool) -> None:
        producer.decision += 1
        if bumps:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        await self.mark(producer, commits=commits)
        if commits:
            self.committed.update(producer.open)
        producer.open = []

    async def mark(self, producer: Producer, *, commits: bool) -> bool:
        """Whether it was appended."""
        end = marker(
            producer.id,
            producer.epoch,
            commit=commits,
            coordinator_epoch=3,
            version=2 if producer.bumps else 0,
            decision=producer.decision,
        )
        return not (await self.log.enqueue_marker(end).durable()).duplicate

    async def do_end_again(self) -> None:
        """Repeat a marker, as after a lost response: by a coordinator that knows that nothing new has begun."""
        producer = self.random.choice(self.producers)
        if producer.decision and not producer.open:
            await self.mark(producer, commits=self.random.random() < 0.5)

    async def do_stale(self) -> None:
        """Try a producer of an older epoch, and a batch after the end of its transaction."""
        producer = self.random.choice(self.producers)
        if producer.epoch and producer.id in self.log.producers():
            with pytest.raises(InvalidProducerEpoch):
                self.log.guard_for(producer.id, producer.epoch - 1)
        if not producer.open:
            content, _ = self.batch(producer)
            with pytest.raises(InvalidTxnState):
                self.log.enqueue(content)

    async def do_clean(self) -> None:
        await self.log.clean()

    async def do_delete(self) -> None:
        span = self.log.high_watermark - self.log.log_start_offset
        await self.log.delete_records(self.log.log_start_offset + self.random.randint(0, span // 3))

    async def do_wait(self) -> None:
        self.clock.now_ms += self.random.choice([1, 3_000, 10_000])

    async def do_reopen(self) -> None:
        await self.log.close()
        self.open()

    async def do_power(self) -> None:
        """Whatever is not synced is lost."""
        self.may_forget = self.may_forget or self.log.log_start_offset > 0
        if self.random.random() < 0.5:
            await self.log.close()
        lose_what_is_not_synced(self.directory)
        before = self.log
        self.open()
        await before.close()

    async def do_crash(self) -> None:
        """Stop the disk in the middle of a run of the cleaner; another activation continues."""
        self.disk.count = 0
        self.disk.before = Broken(self.random.randint(0, 12), for_ever=True)
        with suppress(StorageError):
            await self.log.clean()
        before = self.log
        self.open()
        await before.close()

    def readable(self, producer: Producer) -> list[int]:
        """Return the records of its open transaction that were not deleted."""
        return [offset for offset in producer.open if offset >= self.log.log_start_offset]

    def check(self) -> None:
        start, end = self.log.log_start_offset, self.log.high_watermark
        stable = self.log.last_stable_offset
        firsts = [producer.open[0] for producer in self.producers if producer.open]
        readable = [offset for producer in self.producers for offset in self.readable(producer)[:1]]
        assert max(start, min(firsts, default=end)) <= stable <= min(readable, default=end)
        visible = {offset for offset in self.committed if start <= offset < stable}
        found = self.read_committed(start, ALL_BYTES)
        assert set(found) <= visible
        assert all(found[offset] == self.records[offset] for offset in found)
        latest = {self.records[offset][0]: offset for offset in sorted(visible)}
        assert set(latest.values()) <= set(found)
        assert self.read_committed(start, 1) == found
        middle = self.random.randint(start, stable)
        assert self.read_committed(middle, 200) == {offset: each for offset, each in found.items() if offset >= middle}

    def read_committed(self, start: int, max_bytes: int) -> dict[int, tuple[bytes | None, bytes | None]]:
        """Return the records that a client gets with as many fetches as it takes."""
        found: dict[int, tuple[bytes | None, bytes | None]] = {}
        position, stable = start, self.log.last_stable_offset
        while position < stable:
            extents = self.log.extents(position, max_bytes, at_least_one=True, before=stable)
            aborted = self.log.aborted_transactions(position, extents, stable)
            assert all(each.last_offset >= position for each in aborted)
            records, following = client_view(
                self.log.read_extents(extents), [(each.producer_id, each.first_offset) for each in aborted], position
            )
            if following == position:
                return found  # only a gap is left
            position = following
            found |= {record.offset: (record.key, record.value) for record in records}
        return found


@pytest.mark.parametrize("seed", seeds(few=8, many=40, fresh=40))
def test_any_history(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0)

    async def main() -> None:
        world = World(tmp_path / "t-0", seed)
        for _ in range(STEPS):
            await world.step()
            world.check()
        for producer in world.producers:
            await world.end(producer, commits=producer.id == 1, bumps=producer.bumps)
        world.check()
        assert world.log.last_stable_offset == world.log.high_watermark
        await world.log._writer.roll()
        while await world.log.clean() is not None:
            world.check()
        found = world.read_committed(world.log.log_start_offset, ALL_BYTES)
        assert len({key for key, _ in found.values()}) == len(found)
        assert set(found) == {record.offset for record in world.log.replay()}, "what was aborted is gone"
        await world.do_reopen()
        world.check()
        await world.log.close()

    run(main(), timeout_s=60)
