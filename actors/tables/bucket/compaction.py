"""Merges the objects of an hour into one, and removes hours past their retention.

It does on a bucket what :mod:`muster.actors.tables.compaction` does on files, except for roll-ups, and needs no lock:

* a merged object counts once ``_files.json`` names it, and two runs cannot both change that from the same ETag;
* before a run removes merged objects that are not named there, it changes ``_files.json``, so that nobody names them
  afterwards;
* what is superseded, or expired, remains so.

So a run may be killed or paused at any point, and others may go on meanwhile. An hour that another run changes is left
to that one.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from muster.actors.object_storage.store import NoSuchObject, ObjectStorageError, ObjectStore, Taken
from muster.actors.tables.arrow import pa
from muster.actors.tables.bucket.hours import FILES, BucketHour, HourFiles, hours, read_files
from muster.actors.tables.compaction import Outcome, Policy
from muster.actors.tables.hours import MERGED, TableDamaged
from muster.actors.tables.merging import concatenate, fits
from muster.actors.tables.schemas import TABLES

SMALL_BYTES = 16 << 20
"""Larger objects are left as they are."""
MAX_BYTES = 32 << 20
"""Total size at which a group of objects to merge into one is complete: an upload is one request with a time limit."""
SCRATCH = ".compaction-"
"""Beginning of the names of directories with copies."""
_AT_ONCE = 4
"""Objects that are copied at once."""


@dataclass(slots=True)
class BucketCompaction:
    """Runs of one process, one after the other."""

    store: ObjectStore
    policy: Policy
    now_ms: Callable[[], int]
    scratch: Path
    """A directory for copies of what is being merged."""
    unfit: dict[str, str | None] = field(default_factory=dict)
    """Objects that are not merged, with the problem if there is one: they never change, so they are not read again."""

    async def run(self, stopped: Callable[[], bool] = lambda: False) -> Outcome:
        """Run over all tables. What cannot be done is left as it is, and reported as a problem.

        ``stopped`` is checked between hours.
        """
        outcome = Outcome()
        try:
            for table in TABLES:
                for hour in await hours(self.store, table):
                    if stopped():
                        return outcome
                    await self._keep(hour, table, outcome)
        except ObjectStorageError as error:
            outcome.problems.append(str(error))
        return outcome

    async def _keep(self, hour: BucketHour, table: str, outcome: Outcome) -> None:
        try:
            await _Run(self, hour, table, outcome).keep()
        except Taken:
            pass  # another run is at it
        except TableDamaged as damage:
            outcome.problems.append(str(damage))
        except (OSError, pa.ArrowException) as error:
            outcome.problems.append(f"{hour.prefix}: {error}")


@dataclass(slots=True)
class _Run:
    compaction: BucketCompaction
    hour: BucketHour
    table: str
    outcome: Outcome
    said: HourFiles = field(default_factory=HourFiles)
    etag: str | None = None
    copying: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def keep(self) -> None:
        policy, age_ms = self.compaction.policy, self.compaction.now_ms() - self.hour.end_ms
        if FILES in self.hour.sizes:
            self.said, self.etag = await read_files(self.compaction.store, self.hour)
            if self.etag is None:
                return  # another run has just removed the hour
        if self.said.expired_ms is not None or (policy.retention_ms is not None and age_ms >= policy.retention_ms):
            await self._expire()
            return
        await self._remove_leftovers()
        over = [name for name, at_ms in self.said.superseded.items() if self._is_over(at_ms)]
        await self._delete(name for name in over if name in self.hour.sizes)
        if age_ms >= policy.delay_ms and len(self.hour.files()) > 1:
            for group in [*self._groups()]:
                await self._merge_sound(group)

    async def _change(self, said: HourFiles) -> None:
        """Raise Taken if another run has changed it since it was read."""
        store, name, content = self.compaction.store, self.hour.prefix + FILES, said.encode()
        if self.etag is None:
            self.etag = await store.create(name, content)
        else:
            self.etag = await store.replace(name, content, self.etag)
        self.said = said

    async def _expire(self) -> None:
        if self.said.expired_ms is None:
            await self._change(replace(self.said, expired_ms=self.compaction.now_ms()))
            self.outcome.expired += 1
        assert self.said.expired_ms is not None
        if self._is_over(self.said.expired_ms):
            await self._delete(name for name in self.hour.sizes if name != FILES)
            await self.compaction.store.delete([self.hour.prefix + FILES])

    async def _remove_leftovers(self) -> None:
        """Remove merged objects that nobody named, of runs that were killed or came too late."""
        merged = {name for name in self.hour.files() if name.startswith(MERGED)}
        if leftovers := merged - self.said.merged - self.said.superseded.keys():
            await self._change(self.said)
            await self._delete(leftovers)
            self.hour = replace(
                self.hour, sizes={name: size for name, size in self.hour.sizes.items() if name not in leftovers}
            )

    def _groups(self) -> Iterator[list[str]]:
        """Yield groups of objects to merge into one."""
        group: list[str] = []
        size_bytes = 0
        sizes, unfit = self.hour.sizes, self.compaction.unfit
        for name in sorted(self.hour.live(self.said) & sizes.keys()):
            if self.hour.prefix + name in unfit:
                self.outcome.problems += filter(None, [unfit[self.hour.prefix + name]])
            elif sizes[name] < SMALL_BYTES:
                group.append(name)
                size_bytes += sizes[name]
            if size_bytes >= MAX_BYTES:
                yield group
                group, size_bytes = [], 0
        yield group

    async def _merge_sound(self, names: list[str]) -> None:
        """Merge the objects, except for those that turn out to be unfit; nothing if there is only one."""
        if len(names) < 2:
            return
        with tempfile.TemporaryDirectory(dir=self.compaction.scratch, prefix=SCRATCH) as folder:
            copied = await asyncio.gather(*(self._copy(name, Path(folder)) for name in names))
            copies = [path for path in copied if path is not None]
            while len(copies) > 1:
                target = Path(folder) / f"{MERGED}{uuid.uuid4().hex[:16]}.parquet"
                try:
                    concatenate(copies, target, TABLES[self.table].arrow)
                except TableDamaged as damage:
                    if damage.path not in copies:
                        raise
                    copies.remove(damage.path)
                    self._leave(damage.path.name, damage)
                    continue
                await self._name(target, [path.name for path in copies])
                return

    async def _copy(self, name: str, folder: Path) -> Path | None:
        """Return the copy of an object that can be merged."""
        path = folder / name
        async with self.copying:
            try:
                content = (await self.compaction.store.read(self.hour.prefix + name)).content
            except NoSuchObject:
                return None  # another run has merged it
            await asyncio.to_thread(path.write_bytes, content)
        try:
            if fits(path, self.table):
                return path
            self._leave(name, None)
        except (TableDamaged, OSError, pa.ArrowException) as error:
            self._leave(name, error)
        return None

    def _leave(self, name: str, error: Exception | None) -> None:
        known = None
        if error is not None:
            known = f"{self.hour.prefix}{name}: {error.problem if isinstance(error, TableDamaged) else error}"
            self.outcome.problems.append(known)
        self.compaction.unfit[self.hour.prefix + name] = known

    async def _name(self, merged: Path, sources: list[str]) -> None:
        """Store the merged object, then let it count instead of its sources."""
        content = await asyncio.to_thread(merged.read_bytes)
        await self.compaction.store.create(self.hour.prefix + merged.name, content)
        at_ms = self.compaction.now_ms()
        await self._change(
            HourFiles(
                merged=self.said.merged - set(sources) | {merged.name},
                superseded={**self.said.superseded, **dict.fromkeys(sources, at_ms)},
            )
        )
        self.outcome.merged += len(sources)
        self.outcome.into += 1

    def _is_over(self, at_ms: int) -> bool:
        return at_ms + self.compaction.policy.grace_ms <= self.compaction.now_ms()

    async def _delete(self, names: Iterator[str] | set[str]) -> None:
        found = sorted(names)
        await self.compaction.store.delete([self.hour.prefix + name for name in found])
        self.outcome.removed += len(found)
