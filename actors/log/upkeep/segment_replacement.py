"""The only way to remove or replace parts of a log, and to move its start.

Retention, DeleteRecords and the cleaner all make a :class:`Change`. It is decided when its turn comes, and carried out
in this order:

1. new files are whole and durable already; no manifest lists them, so they do not count yet;
2. the epoch's own manifest is replaced, durably;
3. the claim is checked; only if it still holds
4. memory is updated, and files that the manifest no longer lists are removed.

``muster.actors.log.partition`` explains why that is safe beside a fenced writer. A step that fails leaves everything
in place; it is then unknown which of the two manifests is on the disk, and both mean the same to every reader. Nothing
is removed until a later change completes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from muster.actors.log.committer import Committer
from muster.actors.log.errors import NotLeader, StorageError
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.recovery import Recovered
from muster.actors.log.files.segment import Segment
from muster.actors.log.storage import PartitionStorage

log = logging.getLogger(__name__)

THREADS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="log-rewrite")
"""For all that changes closed segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the closed segments. All fields but one may be left out."""

    log_start_offset: int = 0
    """Takes effect if higher than the current one. Not above the high watermark."""
    cleaned_offset: int = 0
    """Likewise."""
    removed: tuple[Segment, ...] = ()
    """Closed segments to remove, adjacent in the log."""
    replacement: Segment | None = None
    """Replaces the removed segments. Durable."""


class SegmentReplacer:
    """The replacer of one log. For the event loop's thread."""

    def __init__(
        self,
        directory: Path,
        epoch: int,
        storage: PartitionStorage,
        writer: Committer,
        recovered: Recovered,
        disk: Disk,
        changed: Callable[[], None],
    ) -> None:
        self.log_start_offset = recovered.log_start_offset
        self.cleaned_offset = recovered.cleaned_offset
        self._directory = directory
        self._epoch = epoch
        self._storage = storage
        self._writer = writer
        self._disk = disk
        self._changed = changed
        self._turn = asyncio.Lock()
        self._dead: set[Path] = set()
        """Segment files that are no longer part of the log."""

    async def apply(self, decide: Callable[[], Change | None]) -> Change | None:
        """Carry out the change that ``decide`` returns, if any, once all earlier changes are done. Returns the change.

        Continues if the caller is cancelled. Raises NotLeader or StorageError, and what ``decide`` raises.
        """
        return await asyncio.shield(asyncio.ensure_future(self._apply(decide)))

    async def settled(self) -> None:
        """Wait until no change is in progress."""
        async with self._turn:
            pass

    async def _apply(self, decide: Callable[[], Change | None]) -> Change | None:
        async with self._turn:
            if self._writer.over is not None:
                raise self._writer.over.again()
            if self._writer.segments[-1].epoch != self._epoch:
                raise StorageError(f"{self._directory.name}: nothing is removed while nothing can be appended")
            if self._writer.keeper.refusal is not None:
                raise self._writer.keeper.refusal.again()
            await self._writer.keeper.settled()
            await self._storage.settled()
            change = decide()
            if change is None:
                return None
            manifest = self._manifest(change)
            try:
                await self._storage.publish(manifest, change.replacement)
            except NotLeader as error:
                self._writer.end(error)
                self._discard(change.replacement)
                raise
            except (OSError, StorageError) as error:
                self._discard(change.replacement)
                log.error("%s: %s could not be changed: %s", self._directory, manifest.path(self._directory), error)
                raise StorageError(f"{self._directory.name}: {error}") from error
            self._follow(change, manifest)
            await self._writer.append_times.flush()
            await self._writer.keeper.settled()
            await asyncio.get_running_loop().run_in_executor(THREADS, self._remove_dead)
            await self._storage.remove([segment.name for segment in change.removed])
            return change

    def _manifest(self, change: Change) -> Manifest:
        *closed, active = _replaced(self._writer.segments, change)
        return Manifest(
            epoch=active.epoch,
            base_offset=active.base_offset,
            ends={segment.name: segment.next_offset for segment in closed},
            log_start_offset=max(self.log_start_offset, change.log_start_offset),
            cleaned_offset=max(self.cleaned_offset, change.cleaned_offset),
            first_serial=active.name.serial,
        )

    def _follow(self, change: Change, manifest: Manifest) -> None:
        self._writer.segments[:] = _replaced(self._writer.segments, change)
        if change.replacement is not None:
            self._writer.keeper.watch(change.replacement)
        self.log_start_offset = manifest.log_start_offset
        self.cleaned_offset = manifest.cleaned_offset
        if change.replacement is not None:
            self._writer.keeper.watch(change.replacement)
        for segment in change.removed:
            segment.close()
            self._dead.add(segment.path)
        self._changed()

    def _discard(self, replacement: Segment | None) -> None:
        """Discard a replacement once a later manifest is there: the one on the disk may list it."""
        if replacement is not None:
            replacement.close()
            self._dead.add(replacement.path)

    def _remove_dead(self) -> None:
        """In a thread. Removes a segment file after the files beside it, so none of them is left alone."""
        stems = {path.stem: path for path in self._dead}
        try:
            found = sorted(
                (entry for entry in self._directory.iterdir() if entry.stem in stems),
                key=lambda entry: entry in self._dead,
            )
            for entry in found:
                self._disk.unlink(entry)
        except OSError as error:
            log.warning("%s: files that are not needed are still there: %s", self._directory, error)
        else:
            self._dead.difference_update(stems.values())


def _replaced(segments: Iterable[Segment], change: Change) -> list[Segment]:
    removed = {segment.name for segment in change.removed}
    kept = [segment for segment in segments if segment.name not in removed]
    if change.replacement is not None:
        kept.append(change.replacement)
        kept.sort(key=lambda segment: segment.base_offset)
    return kept
