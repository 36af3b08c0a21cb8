"""Samples that survive SIGKILL: the store of the table ``samples``, with spools as in :mod:`actors.tables.store`.

A pending sample is in its spool but in no Parquet file until it is settled; settling appends the whole sample to
the then current spool. A spool is kept until all its pending samples are settled, and spools go oldest first:
so a pending sample never outlives its resolution. Spools are ``spool/gateway-<id>-<run>/``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from actors.tables import journal
from actors.tables.folder import SpoolFolder
from actors.tables.parquet import write_samples
from actors.tables.recovery import recover_samples
from actors.tables.rollup import Rollup, Row, Sample
from actors.tables.schemas.samples import SAMPLES
from actors.tables.store import Spool, SpooledStore

__all__ = ["Run", "Sample", "SampleStore"]


class SampleStore(SpooledStore[Rollup]):
    """What one gateway sent, as rows of the table ``samples``.

    ``add``, ``add_pending``, ``settle`` and ``save`` are for the event loop: one ``write`` to the page cache each, and
    they never raise for a full disk (the sample is then safe only once it is flushed). ``flush``
    and ``close`` write files; call them through an executor. All are thread-safe. Spools of dead processes of the
    same gateway are recovered by the constructor and by every flush. OSError from the constructor when the
    directory cannot be used.

    ``flush_ms`` is how often the owner means to flush; it bounds how old the table is, not what can be lost.
    ``observe`` gets every row of this process once, when it is complete, in the thread that flushes.
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
        self._numbers = itertools.count(1)
        self._unsaved: list[bytes] = []
        """Lines for the current spool."""
        self._pending: dict[int, tuple[Sample, Spool[Rollup]]] = {}
        self.recover()
        self._own_folder()

    def add(self, sample: Sample) -> Run | None:
        """Count a sample whose attribution is final; those that follow it may extend the run that it begins.

        None if it is in memory only (full disk): lines that go on with it would mean nothing.
        """
        with self._lock:
            spool = self._writable()
            number = next(self._numbers)
            self._append(journal.begin_line(number, sample))
            row = spool.rows.add(sample)
            is_on_disk = spool.file is not None and not spool.file.torn
            return Run(self, spool, row, number) if is_on_disk else None

    def add_pending(self, sample: Sample) -> int:
        """Keep a sample out of the table until :meth:`settle`; returns its handle, unique in this store."""
        with self._lock:
            spool = self._writable()
            handle = next(self._handles)
            self._append(journal.pending_line(handle, sample))
            spool.pending += 1
            self._pending[handle] = (sample, spool)
        return handle

    def save(self) -> None:
        """Write what runs were extended by. Until then a SIGKILL loses it."""
        with self._lock:
            self._save()

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        """Count a pending sample, attributed (or not: ``group`` None and a reason). KeyError if not pending."""
        with self._lock:
            sample = self._pending[handle][0]
            self._decide(handle, replace(sample, group=group, member_id=member_id, evidence=evidence, reason=reason))

    def _decide(self, handle: int, sample: Sample) -> None:
        spool = self._writable()
        self._append(journal.resolution_line(handle, sample))
        spool.rows.add(sample)
        _, held_in = self._pending.pop(handle)
        held_in.pending -= 1

    def _decide_pending(self) -> None:
        """With the reason that each has."""
        for handle, (sample, _) in list(self._pending.items()):
            self._decide(handle, sample)

    def _append(self, line: bytes) -> None:
        """To the current spool, behind what is not saved yet: rows depend on the order of lines."""
        self._unsaved.append(line)
        self._save()

    def _save(self) -> None:
        if self._unsaved and self._current is not None:
            self._current.append(b"".join(self._unsaved))
        self._unsaved.clear()

    def _before_seal(self) -> None:
        self._save()

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


class Run:
    """Samples of one client, attribution and partition, each of which goes on where the one before it ended."""

    __slots__ = ("_number", "_row", "_spool", "_store")

    def __init__(self, store: SampleStore, spool: Spool[Rollup], row: Row, number: int) -> None:
        self._store = store
        self._spool = spool
        self._row = row
        self._number = number

    def extend(self, ts_ms: int, messages: int, size_bytes: int, first_offset: int, last_offset: int) -> bool:
        """Count one more sample; False, and nothing, if it does not go on, or the run is over (``flush``).

        It costs a fifth of :meth:`SampleStore.add`, and is on disk after :meth:`SampleStore.save`.
        """
        store = self._store
        with store._lock:
            if store._current is not self._spool:
                return False
            if not self._row.extend(ts_ms, messages, size_bytes, first_offset, last_offset):
                return False
            store._unsaved.append(
                journal.EXTENSION % (self._number, ts_ms, messages, size_bytes, first_offset, last_offset)
            )
            return True
