"""What git knows of the checkout: its commit, and what has changed since another."""

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
        """The commit, with ``-dirty`` if files differ from it, the ledger aside."""
        commit = self._git("rev-parse", f"--short={_LENGTH}", "HEAD").stdout.strip()
        is_dirty = self._git("status", "--porcelain", "--", ".", self._not_a_change).stdout
        return f"{commit}-dirty" if is_dirty else commit

    def changed(self, since: str, paths: Iterable[str]) -> bool:
        """Whether files below the paths differ from that commit; true, too, if HEAD does not descend from it."""
        if self._git("merge-base", "--is-ancestor", since, "HEAD", check=False).returncode != 0:
            return True
        return self._git("diff", "--quiet", since, "--", *paths, self._not_a_change, check=False).returncode != 0

    def _git(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(self._folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=check)
