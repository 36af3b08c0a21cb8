"""Bad subjects, and the commits that are looked at."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.subjects import COUNT, MAX_CHARS, main, problems

NEW, OLD = "2026-11-29T00:00Z", "2026-11-28T11:00Z"
Commit = Callable[..., None]


@pytest.mark.parametrize("subject", ["Merge a into b", ".ci/run: wait", "find_ray: look in /opt", "A" * MAX_CHARS])
def test_a_good_subject(subject: str) -> None:
    assert not problems(subject)


@pytest.mark.parametrize("subject", ["A" * (MAX_CHARS + 1), "Merge a into b.", "merge a", "chaos: fix", "a. b", ""])
def test_a_bad_subject(subject: str) -> None:
    assert len(problems(subject)) == 1


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Return a function that adds a commit to a repository in ``tmp_path``."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.org")

    def add(subject: str, date: str = NEW) -> None:
        monkeypatch.setenv("GIT_COMMITTER_DATE", date)
        options = ["--quiet", "--allow-empty", "--message", subject]
        subprocess.run(["git", "-C", str(tmp_path), "commit", *options], check=True)

    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return add


def test_a_new_commit_with_a_bad_subject_fails(
    tmp_path: Path, commit: Commit, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("bad when it was made", OLD)
    commit("Merge a into b")
    assert main(tmp_path) == 0
    commit("bad")
    commit("Merge c into d")
    assert main(tmp_path) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "subjects: new commits checked: 1"
    assert second.endswith("begins neither with a capital letter nor with a path or an identifier: bad")


def test_only_the_latest_commits_are_read(tmp_path: Path, commit: Commit) -> None:
    commit("bad")
    for number in range(COUNT):
        commit(f"Commit {number}")
    assert main(tmp_path) == 0


def test_without_a_clone_nothing_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path) == 0
    assert "not a git clone" in capsys.readouterr().out
