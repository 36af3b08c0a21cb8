"""Samples that survive SIGKILL: the store of the table ``samples``, with spools as in
:mod:`muster.actors.tables.store`.

A run of samples is written as one line when it begins, and has a slot of counters that is updated in place when it is
extended (:mod:`muster.actors.tables.slots`); so a spool grows with runs, not with samples. A pending sample is in its
spool but in no Parquet file until it is settled; settling appends the whole sample to the spool that is current then.
A spool is kept until all its pending samples are settled, and spools are removed oldest first, so a pending sample
never outlives its resolution. Spools are in ``spool/gateway-<id>-<run>/``.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from threading import Lock

from muster.actors.tables import journal
from muster.actors.tables.events import MAX_ROWS_HELD
from muster.actors.tables.folder import SpoolFile, SpoolFolder
from muster.actors.tables.parquet import write_samples
from muster.actors.tables.recovery import recover_samples
from muster.actors.tables.rollup import HOUR_MS, Rollup, Row, Sample, extension, series_of
from muster.actors.tables.schemas.samples import SAMPLES
from muster.actors.tables.slots import COPY_BYTES, SUFFIX, SlotFile, pack_into
from muster.actors.tables.store import Spool, SpooledStore

__all__ = ["Run", "Sample", "SampleStore"]

_log = logging.getLogger(__name__)


class Run(Row):
    """Samples of one client, attribution and partition, each of which starts where the previous one ended."""

    __slots__ = ("_at", "_lock", "_segment", "_slots", "_until_ms")

    def __init__(self, head: Sample, lock: Lock, slots: SlotFile, segment: mmap, at: int) -> None:
        super().__init__(
            head=head,
            last_ts_ms=head.ts_ms,
            messages=head.messages,
            bytes=head.bytes,
            fetches=1,
            last_offset=head.last_offset,
            control_records=head.control_records,
            aborted_records=head.aborted_records,
        )
        self._lock = lock
        self._slots = slots
        self._segment = segment
        self._at = at
        self._until_ms = (head.ts_ms // HOUR_MS + 1) * HOUR_MS

    def extend(
        self,
        ts_ms: int,
        messages: int,
        size_bytes: int,
        first_offset: int,
        last_offset: int,
        control_records: int = 0,
        aborted_records: int = 0,
    ) -> bool:
        """Count and store one more sample. False, without effect, if it does not continue the run or the run is over.

        A run is over with its hour, and with a flush. Every fetch calls this: see ``benchmarks.fetching.cost``.
        """
        with self._lock:
            if first_offset != self.last_offset + 1 or ts_ms >= self._until_ms or not self._slots.is_open:
                return False
            self.last_ts_ms = ts_ms
            self.messages = messages = self.messages + messages
            self.bytes = size_bytes = self.bytes + size_bytes
            self.fetches = fetches = self.fetches + 1
            self.last_offset = last_offset
            self.control_records = control = self.control_records + control_records
            self.aborted_records = aborted = self.aborted_records + aborted_records
            at = self._at + COPY_BYTES * (fetches & 1)
            amounts = messages, size_bytes, last_offset, control, aborted
            pack_into(self._segment, at, fetches, ts_ms, *amounts, fetches)
        return True


class SampleStore(SpooledStore[Rollup]):
    """Store of one gateway's sends, as rows of the table ``samples``.

    ``add``, ``add_pending`` and ``settle`` are for the event loop: one ``write`` to the page cache each, and they never
    raise for a full disk (the sample is then safe only once it is flushed). ``flush`` and ``close`` write files; call
    them in an executor. All are thread-safe. The constructor and every flush recover spools of dead processes of the
    same gateway. The constructor raises OSError if the directory cannot be used.

    ``flush_ms`` is how often the owner intends to flush; it bounds how old the table is, not what can be lost.
    ``observe`` gets every row of this process once, when the row is complete, in the thread that flushes.
    """

    def __init__(
        self,
        directory: Path,
        gateway: int,
        *,
        flush_ms: int,
        now_ms: Callable[[], int],
        observe: Callable[[Iterable[Row]], None] | None = None,
    ) -> None:
        super().__init__(directory / SAMPLES, directory / "spool", f"gateway-{gateway}", now_ms=now_ms)
        self.flush_ms = flush_ms
        self._observe = observe
        self._gateway = gateway
        self._handles = itertools.count(1)
        self._runs: dict[tuple[object, ...], Run] = {}
        """The runs of the current spool that can be extended."""
        self._slots: SlotFile | None = None
        """The slots of the current spool, once it has a run."""
        self._pending: dict[int, tuple[Sample, Spool[Rollup]]] = {}
        self.recover()
        self._own_folder()

    def add(self, sample: Sample) -> Run | None:
        """Count a sample whose attribution is final. Returns its run, which following samples may extend.

        None if it belongs to no run (full disk): then it is a line of its own, or in memory only.
        """
        series = series_of(sample)
        run = self._runs.get(series)
        if run is not None and run.extend(*extension(sample)):
            return run
        with self._lock:
            spool = self._writable()
            run = self._begin(spool.file, sample) if spool.file is not None else None
            if run is None:
                spool.rows.add(sample)
            else:
                spool.rows.take(run)
                self._runs[series] = run
        return run

    def _begin(self, file: SpoolFile, sample: Sample) -> Run | None:
        """Write the sample's line. Returns a run if there is a slot for it and the line is whole."""
        try:
            if self._slots is None:
                file.beside = file.path.with_suffix(SUFFIX)
                self._slots = SlotFile(file.beside)
            number, segment, at = self._slots.take()
        except OSError:
            file.append(journal.sample_line(sample))
            return None
        file.append(journal.run_line(number, sample))
        return None if file.torn else Run(sample, self._lock, self._slots, segment, at)

    def add_pending(self, sample: Sample) -> int:
        """Keep a sample out of the table until :meth:`settle`; returns its handle, unique in this store."""
        with self._lock:
            spool = self._writable()
            handle = next(self._handles)
            spool.append(journal.pending_line(handle, sample))
            spool.pending += 1
            self._pending[handle] = (sample, spool)
        return handle

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        """Count a pending sample, attributed or not (``group`` None and a reason).

        Raises KeyError if it is not pending.
        """
        with self._lock:
            sample = self._pending[handle][0]
            self._decide(handle, replace(sample, group=group, member_id=member_id, evidence=evidence, reason=reason))

    def _decide(self, handle: int, sample: Sample) -> None:
        spool = self._writable()
        spool.append(journal.resolution_line(handle, sample))
        spool.rows.add(sample)
        _, held_in = self._pending.pop(handle)
        held_in.pending -= 1

    def _decide_pending(self) -> None:
        """Count all pending samples, each with the reason that it has."""
        for handle, (sample, _) in list(self._pending.items()):
            self._decide(handle, sample)

    def _before_seal(self) -> None:
        if self._slots is not None:
            self._slots.close()
        self._slots = None
        self._runs.clear()

    def _none(self) -> Rollup:
        return Rollup()

    def _count(self, rows: Rollup) -> int:
        return len(rows)

    def _write(self, name: str, rows: Rollup) -> int:
        return write_samples(self._table, name, self._gateway, rows)

    def _settle(self, folder: SpoolFolder) -> int:
        return recover_samples(folder, self._table, self._gateway)

    def _on_sealed(self, rows: Rollup) -> None:
        if self._observe is not None:
            self._observe(rows.rows())
        if sum(len(spool.rows) for spool in self._sealed) > MAX_ROWS_HELD:
            _log.error("%d rows of samples are lost: the disk refused others for too long", len(rows))
            self._sealed[-1].rows = self._none()
