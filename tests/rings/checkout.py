"""Checkout, as git knows it: its commit, and changes since another."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.rings.ledger import LEDGER
from tests.rings.ring import ROOT

_LENGTH = 12


class Checkout:
    """A git clone; ``folder`` is its top."""

    def __init__(self, folder: Path = ROOT) -> None:
        self._folder = folder
        self._not_a_change = f":(exclude){LEDGER.relative_to(ROOT)}"

    def commit(self) -> str:
        """Return the commit, with ``-dirty`` if files differ from it, the ledger aside."""
        commit = self._git("rev-parse", f"--short={_LENGTH}", "HEAD").stdout.strip()
        is_dirty = self._git("status", "--porcelain", "--", ".", self._not_a_change).stdout
        return f"{commit}-dirty" if is_dirty else commit

    def changed(self, since: str, paths: Iterable[str]) -> bool:
        """Whether files below the paths differ from that commit, also new ones that git does not know.

        True, too, if HEAD does not descend from it.
        """
        below = ("--", *paths, self._not_a_change)
        return (
            self._git("merge-base", "--is-ancestor", since, "HEAD", check=False).returncode != 0
            or self._git("diff", "--quiet", since, *below, check=False).returncode != 0
            or bool(self._git("status", "--porcelain", *below).stdout)
        )

    def _git(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(self._folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=check)
