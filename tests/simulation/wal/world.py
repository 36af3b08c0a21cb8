"""The world, and what must be true in it.

Each process that opens the log keeps a list of records: what the manifest has, and what the log has behind that. The
manifest stands for the segments of a partition: an object that is replaced by its ETag, as theirs are.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

from muster.actors.log.errors import FencedEpoch, LogError, StorageError
from muster.actors.log.wal.objects import Entry, boundary_of
from muster.actors.log.wal.opening import open_wal
from muster.actors.log.wal.writer import Wal
from muster.actors.object_storage.store import NoSuchObject, ObjectStore, Taken, Unavailable
from tests.object_storage.memory import MemoryBucket
from tests.simulation.planted.broken import Broken
from tests.simulation.processes.process import Machine, Process
from tests.simulation.schedule import Schedule
from tests.simulation.wal.bucket import Link, Trouble

STEPS = 4_000
HEALING_MS = 10 * 60_000
_ENDING = 0.002
_ROLE, _MANIFEST = "log-0", "manifest"
_PARTITION = (UUID(int=1), 0)
_PAGES = (3, 100)
"""With small ones, much happens between two pages of a listing."""
_HISTORY = 400


class Writer(Process):
    """A process that opens the log with one epoch, appends to it, and collects."""

    def __init__(self, world: World, epoch: int) -> None:
        super().__init__(world.machine, f"writer-{epoch}")
        self.epoch = epoch
        self.store = ObjectStore(Link(world.machine, self, world.bucket, world.trouble))
        self.records: list[int] | None = None
        """The records that it found when it opened the log, and its own; None before that."""
        self.gave_up = False
        self.acknowledged = 0
        self._world = world
        self._stored: list[int] = []
        self._etag: str | None = None
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Future[int]] = set()
        """Appends that are not acknowledged."""
        self._late: set[asyncio.Future[int]] = set()
        """The appends that were not when close or abandon had returned."""
        self._numbers: deque[tuple[int, int]] = deque()
        """(record, number of the object), of those that are in no manifest."""

    def start(self) -> None:
        self.after(0, lambda: self.loop.create_task(self._live()))

    async def _live(self) -> None:
        try:
            await self._open()
        except Exception as error:
            self.machine.found(Broken(f"{self.name}: {error!r}", "no_callback_fails"))

    async def _open(self) -> None:
        try:
            wal, recovered = await open_wal(self.store, _ROLE, self.epoch, flush_interval_ms=self._world.interval_ms)
            self._world.took_over(self, wal.next_number - 1)
            await self._take_manifest()
        except (FencedEpoch, Taken) as error:
            self._give_up(error)
            return
        except StorageError as error:
            self.machine.found(Broken(f"{self.name}: {error}", "the_log_can_be_read"))
            return
        found = [int.from_bytes(entry.batch, "big") for entry in recovered.get(_PARTITION, ())]
        if len({*found}) != len(found):
            self.machine.found(Broken(f"{self.name}: {found}", "nothing_counts_twice"))
        known = {*self._stored}
        self.records = [*self._stored, *(record for record in found if record not in known)]
        self._numbers.extend((record, wal.next_number - 1) for record in self.records[len(self._stored) :])
        self._world.opened(self)
        self._plan(wal)

    async def _take_manifest(self) -> None:
        """Write it again, which ends the changes of the writers before."""
        while True:
            try:
                found = await self.store.read(_MANIFEST)
                epoch, stored, etag = *_manifest(found.content), found.etag
            except NoSuchObject:
                epoch, stored, etag = -1, [], None
            except Unavailable:
                continue
            if epoch > self.epoch:
                raise FencedEpoch(f"the manifest is of epoch {epoch}")
            try:
                await self._write_manifest(stored, etag)
            except Taken:
                continue
            return

    async def _write_manifest(self, stored: list[int], etag: str | None) -> None:
        content = " ".join(map(str, [self.epoch, *stored])).encode()
        while True:
            try:
                if etag is None:
                    self._etag = await self.store.create(_MANIFEST, content)
                else:
                    self._etag = await self.store.replace(_MANIFEST, content, etag)
            except Unavailable:
                continue
            self._stored = stored
            return

    def _plan(self, wal: Wal) -> None:
        """Do something later, and so on."""
        chance = self._world.chance
        if self.gave_up:
            return
        if self._world.is_faulty and chance.random() < _ENDING:
            self.after(chance.randint(0, 50), lambda: self.loop.create_task(self._end(wal)))
        if chance.random() < self._world.collecting:
            for _ in range(chance.choice([1, 1, 2])):
                self.after(chance.randint(0, 500), lambda: self.loop.create_task(self._collect(wal)))
            self.after(chance.randint(0, 500), lambda: self._plan(wal))
        else:
            self.after(chance.randint(0, 60), lambda: self._append(wal))

    async def _end(self, wal: Wal) -> None:
        """End in order, or at once."""
        if self._world.chance.random() < 0.5:
            await wal.close()
        else:
            wal.abandon()
        self._late = {done for done in self._waiting if not done.done()}
        self._world.counts["ended"] += 1

    def _append(self, wal: Wal) -> None:
        for _ in range(self._world.chance.choice([1, 1, 1, 2, 5])):
            record = self._world.next_record()
            done = wal.append([Entry(*_PARTITION, self.epoch, None, record.to_bytes(4, "big"))])
            self._waiting.add(done)
            done.add_done_callback(partial(self._appended, record))
        self._plan(wal)

    def _appended(self, record: int, done: Any) -> None:
        error = done.exception()
        self._waiting.discard(done)
        if error is None:
            assert self.records is not None
            if done in self._late:
                self.machine.found(Broken(f"{self.name}: {record}", "nothing_is_acknowledged_after_the_end"))
            self.records.append(record)
            self._numbers.append((record, done.result()))
            self.acknowledged += 1
            self._world.acknowledged(self, record)
        elif isinstance(error, LogError):
            self._give_up(error)
        else:
            self.machine.found(Broken(f"{self.name}: {error!r}", "no_callback_fails"))

    async def _collect(self, wal: Wal) -> None:
        assert self.records is not None
        try:
            if self.records and self._etag is not None:
                async with self._turn:
                    await self._write_manifest(list(self.records), self._etag)
                flushed = {*self._stored}
                while self._numbers and self._numbers[0][0] in flushed:
                    self._numbers.popleft()
                first = self._numbers[0][1] if self._numbers else wal.next_number
                await wal.collect(first)
                self._world.counts["collections"] += 1
        except (LogError, Taken) as error:
            self._give_up(error)
        except Exception as error:
            self.machine.found(Broken(f"{self.name}: {error!r}", "no_callback_fails"))

    def _give_up(self, error: Exception) -> None:
        if not self.gave_up:
            self.gave_up = True
            self._world.counts["gave up"] += 1
            self._world.note("%s gives up: %s", self.name, error)


class World:
    def __init__(self, seed: int, *, trace_all: bool = False) -> None:
        self.chance = random.Random(seed)
        self.schedule = Schedule(1_000_000)
        self.counts: Counter[str] = Counter()
        self.bucket, self.trouble = MemoryBucket(self.chance.choice(_PAGES)), Trouble()
        self.interval_ms = self.chance.choice([0, 0, 20, 250])
        self.collecting = self.chance.choice([0.02, 0.1, 0.4])
        self.machine = Machine(self.schedule, self.chance, self.note)
        self.writers: list[Writer] = []
        self._trace: deque[str] = deque(maxlen=None if trace_all else _HISTORY)
        self._records = 0
        self._acknowledged: list[tuple[int, int]] = []
        """(record, epoch)."""
        self._fences: list[tuple[int, int]] = []
        """(epoch, number of the fence) of each that took the log over."""
        self._boundary = 0
        self._opened: list[tuple[int, list[int]]] = []
        """(epoch, records) of each opening, by the time of its end."""

    def note(self, text: str, *arguments: object) -> None:
        self._trace.append(f"{self.schedule.now_ms} {text % arguments}")

    def history(self) -> Iterator[str]:
        yield from self._trace

    def next_record(self) -> int:
        self._records += 1
        return self._records

    def run(self, steps: int) -> None:
        """Run the whole history; the faults stop after ``steps`` events. Raises Broken."""
        try:
            self._start_writer()
            self._plan(self._something_happens)
            for _ in range(steps):
                self._step()
            self._heal()
        finally:
            self.machine.close()

    def took_over(self, writer: Writer, fence: int) -> None:
        """Check that no newer epoch had taken the log over before."""
        later = [epoch for epoch, other in self._fences if epoch > writer.epoch and other < fence]
        if later:
            text = f"{writer.name} has opened the log with fence {fence}, behind that of epoch {max(later)}"
            self.machine.found(Broken(text, "a_late_opener_gives_up"))
        self._fences.append((writer.epoch, fence))

    def opened(self, writer: Writer) -> None:
        """Check what a writer found in the log."""
        assert writer.records is not None
        self.counts["opened"] += 1
        self.note("%s has opened the log: %s", writer.name, writer.records)
        missing = [r for r, epoch in self._acknowledged if epoch < writer.epoch and r not in writer.records]
        if missing:
            self.machine.found(Broken(f"{writer.name} does not find {missing}", "nothing_acknowledged_is_lost"))
        for epoch, records in self._opened:
            if epoch < writer.epoch and writer.records[: len(records)] != records:
                text = f"{writer.name} found {writer.records}, epoch {epoch} had found {records}"
                self.machine.found(Broken(text, "what_was_read_stays"))
        self._opened.append((writer.epoch, list(writer.records)))

    def acknowledged(self, writer: Writer, record: int) -> None:
        """Check that every newer writer that has opened the log knows of it."""
        self.counts["acknowledged"] += 1
        self.note("%s has acknowledged %d", writer.name, record)
        self._acknowledged.append((record, writer.epoch))
        for epoch, records in self._opened:
            if epoch > writer.epoch and record not in records:
                text = f"{writer.name} acknowledged {record}, which epoch {epoch} does not have"
                self.machine.found(Broken(text, "a_fenced_writer_acknowledges_nothing"))

    def _step(self) -> None:
        if not self.schedule.step():
            raise Broken("nothing will ever happen", "everything_gets_well")
        if self.machine.broken is not None:
            raise self.machine.broken
        if (found := self.bucket.objects.get(boundary_of(_ROLE))) is not None:
            first = int(found.content.split()[0])
            if first < self._boundary:
                raise Broken(f"from {self._boundary} to {first}", "the_boundary_never_goes_back")
            self._boundary = first

    def _plan(self, what: Callable[[], None]) -> None:
        self.schedule.after(self.chance.randint(100, 4_000), what)

    def _start_writer(self) -> None:
        """Its epoch is taken now; it may begin much later."""
        writer = Writer(self, len(self.writers))
        self.writers.append(writer)
        if self.chance.random() < 0.3:
            writer.stop(self.chance.randint(100, 20_000))
        self.note("%s starts", writer.name)
        writer.start()

    def _something_happens(self) -> None:
        if not self.is_faulty:
            return
        living = [writer for writer in self.writers if writer.alive and not writer.gave_up]
        kind = self.chance.choice(["start", "start", "kill", "stop", "stop"])
        if kind == "start" or not living:
            self._start_writer()
        else:
            writer = self.chance.choice(living)
            if kind == "kill":
                self.note("%s is killed", writer.name)
                writer.kill()
            else:
                ms = self.chance.choice([50, 1_000, 15_000, 120_000])
                self.note("%s is paused for %d ms", writer.name, ms)
                writer.stop(ms)
        self._plan(self._something_happens)

    is_faulty = True

    def _heal(self) -> None:
        """No more faults: a new writer opens the log, finds everything, and its appends are acknowledged."""
        self.note("the faults stop")
        self.is_faulty = False
        trouble = self.trouble
        trouble.lost_request = trouble.lost_response = trouble.late = trouble.refused = trouble.conflict = 0.0
        for writer in self.writers:
            writer.go_on()
        last = Writer(self, len(self.writers) + 1)
        self.writers.append(last)
        last.start()
        until_ms = self.schedule.now_ms + HEALING_MS
        while last.acknowledged < 20:
            self._step()
            if self.schedule.now_ms > until_ms:
                raise Broken(f"{last.name} has acknowledged {last.acknowledged}", "everything_gets_well")
        last.kill()
        reader = Writer(self, len(self.writers) + 2)
        reader.start()
        while reader.records is None:
            self._step()
            if self.schedule.now_ms > until_ms:
                raise Broken(f"{reader.name} has not opened the log", "everything_gets_well")


def _manifest(content: bytes) -> tuple[int, list[int]]:
    epoch, *records = map(int, content.split())
    return epoch, records
