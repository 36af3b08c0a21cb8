"""Bugs planted in a copy of the tree, which the checker must find."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.cluster import ROOT

_PACKAGES = ("muster", "actors", "gateway", "placement", "spark", "tests")


@dataclass(frozen=True, slots=True)
class Bug:
    """``old`` occurs exactly once in the file; the copy has ``new`` instead."""

    name: str
    file: str
    old: str
    new: str

    def plant(self, tree: Path) -> None:
        path = tree / self.file
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.file} has {self.old!r} {text.count(self.old)} times"
        path.write_text(text.replace(self.old, self.new))


COMMIT_BEFORE_DURABLE = Bug(
    "a commit is acknowledged before it is durable",
    "actors/coordinator/appends.py",
    "        self._lingering.add(write, chunks)\n",
    "        loop = asyncio.get_running_loop()\n"
    "        loop.call_soon(self._written, [Written(write, 0)])\n"
    "        loop.call_later(2.0, self._lingering.add, write, chunks)\n",
)
EPOCH_NOT_CHECKED = Bug(
    "the leader epoch is not checked",
    "actors/log/files/directory.py",
    "        try:\n            os.close(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))\n",
    "        try:\n            pass\n",
)


READS_BEYOND_THE_LAST_STABLE_OFFSET = Bug(
    "the last stable offset is the high watermark",
    "actors/log/reader.py",
    "        if first_unstable is None or first_unstable >= high_watermark:\n",
    "        if first_unstable is None or first_unstable <= high_watermark:\n",
)
ABORT_COMMITS_OFFSETS = Bug(
    "the pending offsets of a transaction that is aborted are kept, and committed",
    "actors/group/transactions/pending.py",
    "        takes_effect = commit and not own.superseded\n",
    "        takes_effect = not own.superseded\n",
)
MARKER_BEFORE_DURABLE = Bug(
    "a marker is acknowledged, and never written",
    "actors/log/partitions.py",
    "        return self._submit((topic_id, partition), lambda log: log.enqueue_marker(marker))\n",
    "        from muster.actors.log.partition import Append, AppendResult\n\n"
    "        result = AppendResult(base_offset=0, log_append_time_ms=-1, log_start_offset=0)\n"
    "        return self._submit((topic_id, partition), lambda log: Append(result, None))\n",
)
EPOCH_NOT_BUMPED = Bug(
    "the epoch of a producer is never bumped",
    "actors/transactions/state.py",
    "    @property\n    def is_exhausted(self) -> bool:\n",
    "    def __post_init__(self) -> None:\n"
    '        object.__setattr__(self, "producer_epoch", 0)\n\n'
    "    @property\n    def is_exhausted(self) -> bool:\n",
)

COMMIT_BEFORE_HANDLED = Bug(
    "a batch is committed before it is handled",
    "gateway/client/consuming/loop.py",
    "            self._await(self._job)\n            self._finish_job()\n",
    "            self._assignment.note_handled(batch.ends, batch.assignments)\n"
    "            self._commit()\n"
    "            self._await(self._job)\n            self._finish_job()\n",
)
NO_EVICTION = Bug(
    "members of dead workers stay in the group",
    "gateway/client/pool/supervisor.py",
    "        self.evicted += evict(coordinator, self._group, found)\n",
    "        self.evicted += len(found[:0])\n",
)


def copy_of_the_tree(to: Path) -> Path:
    """Copy the files that a server needs, to be modified."""
    for package in _PACKAGES:
        no_cache = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, to / package, symlinks=True, ignore=no_cache)
    return to
