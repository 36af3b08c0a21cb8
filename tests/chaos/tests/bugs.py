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
    "actors/offsets/partition.py",
    "        self._lingering.add(write, chunks)\n",
    "        loop = asyncio.get_running_loop()\n"
    "        loop.call_soon(self._guarded, lambda: self._core.written(write, now_ms()))\n"
    "        loop.call_later(2.0, self._lingering.add, write, chunks)\n",
)
EPOCH_NOT_CHECKED = Bug(
    "the leader epoch is not checked",
    "actors/log/files/directory.py",
    "        try:\n            os.close(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))\n",
    "        try:\n            pass\n",
)


def copy_of_the_tree(to: Path) -> Path:
    """The files that a server needs, to be modified."""
    for package in _PACKAGES:
        no_cache = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, to / package, symlinks=True, ignore=no_cache)
    return to
