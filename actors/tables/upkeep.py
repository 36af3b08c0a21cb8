"""Compaction and retention of the tables, and recovery of what dead writers left, in a separate thread."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from muster.actors.object_storage.blocking import wait_for
from muster.actors.object_storage.location import Location
from muster.actors.tables.bucket.reading import open_store
from muster.actors.tables.compaction import Outcome, Policy, compact
from muster.actors.tables.orphans import adopt

if TYPE_CHECKING:  # with obstore, which only clusters on a bucket need
    from muster.actors.tables.bucket.compaction import BucketCompaction

_log = logging.getLogger(__name__)
_MAX_MS = 300_000
_SHORTEST_MS = 1_000
_IDLE = 19
_CLOSE_S = 5.0


class TablesUpkeep:
    """Runs :func:`muster.actors.tables.compaction.compact` and :func:`muster.actors.tables.orphans.adopt` on
    ``<storage>/metrics`` every five minutes, or more often if the grace period is short, at the lowest priority, until
    ``close``. Each problem is logged once.
    """

    def __init__(
        self, metrics: Path, policy: Policy, *, now_ms: Callable[[], int], bucket: Location | None = None
    ) -> None:
        """``bucket``: where the tables are. ``metrics`` then has only copies of what is being merged."""
        self._metrics = metrics
        self._bucket = bucket
        self._compaction: BucketCompaction | None = None
        self._policy = policy
        self._now_ms = now_ms
        self._wait_s = min(_MAX_MS, max(_SHORTEST_MS, policy.grace_ms)) / 1000
        self._closed = threading.Event()
        self._said: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="tables-upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread; the first run is one interval from now."""
        self._thread.start()

    def close(self) -> None:
        """End after the hour in progress. Blocks for seconds at most: a merge that takes longer dies with the process,
        which does no harm."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _IDLE)  # on Linux this applies to the thread
        while not self._closed.wait(self._wait_s):
            try:
                self._round()
            except Exception as error:
                self._say_once(f"{type(error).__name__}: {error}")

    def _round(self) -> None:
        outcome = self._compacted()
        if outcome.merged or outcome.expired:
            _log.info("%d files merged into %d, %d hours expired", outcome.merged, outcome.into, outcome.expired)
        problems = outcome.problems
        if self._bucket is None:  # else a process of each node does it, with its uploads
            problems += adopt(self._metrics, self._now_ms)
        self._said &= set(problems)
        for problem in problems:
            self._say_once(problem)

    def _compacted(self) -> Outcome:
        if self._bucket is None:
            return compact(self._metrics, self._policy, self._now_ms, stopped=self._closed.is_set) or Outcome()
        if self._compaction is None:
            self._compaction = _compaction_on(self._bucket, self._policy, self._now_ms, self._metrics)
        self._metrics.mkdir(parents=True, exist_ok=True)
        return wait_for(self._compaction.run(self._closed.is_set))

    def _say_once(self, problem: str) -> None:
        if problem not in self._said:
            self._said.add(problem)
            _log.error("upkeep of the tables: %s", problem)


def _compaction_on(location: Location, policy: Policy, now_ms: Callable[[], int], scratch: Path) -> BucketCompaction:
    from muster.actors.tables.bucket.compaction import SCRATCH, BucketCompaction

    for left in scratch.glob(f"{SCRATCH}*"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    return BucketCompaction(open_store(location), policy, now_ms, scratch)
