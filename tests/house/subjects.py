"""``python -m tests.house.subjects``: the subjects of new commits, for ``make lint``. Exit code 1 for a bad one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

MAX_CHARS = 72
COUNT = 50
"""Earlier commits are not read."""
SINCE = "2026-11-28T12:00Z"
"""Commits before were checked by another rule."""
_BEGINNING = re.compile(r"[A-Z]|\S*[./_]\w")
"""A capital letter, or a first word such as ``.ci/run`` or ``find_ray``."""


def problems(subject: str) -> list[str]:
    """Return the problems of a subject."""
    found = []
    if len(subject) > MAX_CHARS:
        found.append(f"has {len(subject)} characters, more than {MAX_CHARS}")
    if subject.endswith("."):
        found.append("ends with a full stop")
    if not _BEGINNING.match(subject):
        found.append("begins neither with a capital letter nor with a path or an identifier")
    return found


def new_commits(clone: Path) -> list[tuple[str, str]]:
    """Hash and subject of each, the latest first."""
    log = ["git", "-C", str(clone), "log", "--no-merges", "--format=%H%x09%s", "-n", str(COUNT), f"--since={SINCE}"]
    lines = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
    return [(commit, subject) for commit, _, subject in (line.partition("\t") for line in lines)]


def main(root: Path) -> int:
    if not (root / ".git").exists():
        print("subjects: not a git clone, so there are no commits to check")
        return 0
    commits = new_commits(root)
    wrong = [
        f"subjects: {commit[:10]} {problem}: {subject}" for commit, subject in commits for problem in problems(subject)
    ]
    print("\n".join(wrong) or f"subjects: new commits checked: {len(commits)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[2]))
