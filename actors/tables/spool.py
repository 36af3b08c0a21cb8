"""Samples that survive SIGKILL: an append-only spool in front of the Parquet files.

Every sample is one ``write`` to a spool file before :meth:`SampleStore.add` returns; the page cache keeps it when
the process is killed (a power loss may take the last seconds). A flush rotates the spool, writes the rows of the
old one as Parquet under a name made of the spool's, and removes it. A spool and its Parquet file therefore say the
same, and whoever finds a spool (the next process of this gateway, see :mod:`actors.tables.recovery`) can do that
step again or for the first time, with the same result.

Files below the directory that the store is given (``<storage>/metrics``)::

    spool/gateway-<id>-<run>/lock           held (flock) as long as the process lives
    spool/gateway-<id>-<run>/00000001.jsonl
    samples/date=.../hour=.../gateway-<id>-<run>-00000001.parquet

A pending sample is in its spool but in no Parquet file until it is settled; settling appends the whole sample to
the then current spool. A spool is kept until all its pending samples are settled, and spools go oldest first:
so a pending sample never outlives its resolution.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from actors.tables import journal
from actors.tables.folder import SpoolFile, SpoolFolder, recover
from actors.tables.parquet import write_samples
from actors.tables.recovery import recover_samples
from actors.tables.rollup import Rollup, Row, Sample
from actors.tables.schemas.samples import SAMPLES

__all__ = ["Sample", "SampleStore"]


@dataclass(slots=True)
class _Spool:
    file: SpoolFile
    rollup: Rollup = field(default_factory=Rollup)
    pending: int = 0
    """Pending samples in this file that are not settled yet."""
    written: bool = False


class SampleStore:
    """What one gateway sent, as rows of the table ``samples``.

    ``add``, ``add_pending`` and ``settle`` are for the event loop: one short line and one ``write`` to the page
    cache each, and they never raise for a full disk (the sample is then safe only once it is flushed). ``flush``
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
        self.flush_ms = flush_ms
        self._observe = observe
        self._gateway = gateway
        self._table = directory / SAMPLES
        self._spools = directory / "spool"
        self._flushing = threading.Lock()
        self._lock = threading.Lock()  # guards what add() and rotation share; held for microseconds
        self._handles = itertools.count(1)
        self._pending: dict[int, tuple[Sample, _Spool]] = {}
        self._sealed: deque[_Spool] = deque()
        self._sequence = itertools.count(1)
        self._closed = False
        self._recover()
        self._folder = SpoolFolder.create(self._spools, f"gateway-{gateway}", now_ms())
        self._current = self._open_next()

    def add(self, sample: Sample) -> None:
        """Count a sample whose attribution is final."""
        line = journal.sample_line(sample)
        with self._lock:
            self._append(line)
            self._current.rollup.add(sample)

    def add_pending(self, sample: Sample) -> int:
        """Keep a sample out of the table until :meth:`settle`; returns its handle, unique in this store."""
        with self._lock:
            handle = next(self._handles)
            self._append(journal.pending_line(handle, sample))
            self._current.pending += 1
            self._pending[handle] = (sample, self._current)
        return handle

    def settle(
        self, handle: int, *, group: str | None, member_id: str | None, evidence: str, reason: str | None
    ) -> None:
        """Count a pending sample, attributed (or not: ``group`` None and a reason). KeyError if not pending."""
        with self._lock:
            sample = self._pending[handle][0]
            self._settle(handle, replace(sample, group=group, member_id=member_id, evidence=evidence, reason=reason))

    def flush(self) -> int:
        """Bring everything that is settled into the table; returns the rows written.

        On OSError nothing is lost: the next flush tries again.
        """
        with self._flushing:
            return self._flush()

    def close(self) -> None:
        """Flush everything, pending samples with the reason they have, and remove the spool. Idempotent."""
        with self._flushing:
            if self._closed:
                return
            with self._lock:
                for handle, (sample, _) in list(self._pending.items()):
                    self._settle(handle, sample)
            self._flush()
            with self._lock:
                self._closed = True
            os.close(self._current.file.fd)
            self._folder.remove()
            self._folder.release()

    def _settle(self, handle: int, sample: Sample) -> None:
        self._append(journal.resolution_line(handle, sample))
        self._current.rollup.add(sample)
        _, spool = self._pending.pop(handle)
        spool.pending -= 1

    def _append(self, line: bytes) -> None:
        if self._closed:
            raise ValueError("the sample store is closed")
        self._current.file.append(line)

    def _open_next(self) -> _Spool:
        return _Spool(self._folder.open(next(self._sequence)))

    def _flush(self) -> int:
        self._recover()
        self._rotate()
        rows = 0
        for spool in self._sealed:
            if not spool.written:
                rows += write_samples(self._table, self._folder.name_of(spool.file.path), self._gateway, spool.rollup)
                spool.written = True
                spool.rollup = Rollup()
        while self._sealed and self._sealed[0].written and not self._sealed[0].pending:
            self._sealed.popleft().file.path.unlink()
        return rows

    def _recover(self) -> None:
        settle = partial(recover_samples, table=self._table, gateway=self._gateway)
        recover(self._spools, f"gateway-{self._gateway}", settle)

    def _rotate(self) -> None:
        if not len(self._current.rollup):
            return
        following = self._open_next()
        with self._lock:
            full, self._current = self._current, following
        os.close(full.file.fd)
        self._sealed.append(full)
        if self._observe is not None:
            self._observe(full.rollup.rows())
