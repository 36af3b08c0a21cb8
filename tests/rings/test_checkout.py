"""Changes since a commit, in a real repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.rings.checkout import Checkout

LEDGER = "tests/rings/ledger.csv"


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *names, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def commit(folder: Path, name: str, text: str) -> str:
    write(folder, name, text)
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", f"Change {name}")
    return git(folder, "rev-parse", "--short=12", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "actors/log/a.py", "1")
    return tmp_path


def test_changes_below_paths(repository: Path) -> None:
    checkout = Checkout(repository)
    before = checkout.commit()
    assert not checkout.changed(before, ["."])
    after = commit(repository, "docs/a.md", "2")
    assert checkout.commit() == after
    assert checkout.changed(before, ["gateway", "docs"])
    assert not checkout.changed(before, ["actors"])
    write(repository, "actors/log/a.py", "3")
    assert checkout.changed(after, ["actors"])


def test_the_ledger_is_no_change(repository: Path) -> None:
    checkout = Checkout(repository)
    before = commit(repository, LEDGER, "heading")
    write(repository, LEDGER, "more")
    assert checkout.commit() == before
    commit(repository, LEDGER, "and more")
    assert not checkout.changed(before, ["."])
    write(repository, "new.py", "")
    assert checkout.commit().endswith("-dirty")


def test_a_commit_of_elsewhere_says_nothing(repository: Path) -> None:
    assert Checkout(repository).changed("0123456789ab", ["docs"])
