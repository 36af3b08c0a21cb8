"""CI judges a commit of a real repository, by rings whose commands are quick."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.rings import running
from tests.rings.checkout import Checkout
from tests.rings.choosing import LARGE_S, SMALL_S
from tests.rings.judging import judge
from tests.rings.ledger import Row
from tests.rings.ring import FIRST, Ring
from tests.rings.running import Runner
from tests.rings.test_checkout import commit, repository

__all__ = ["repository"]


@pytest.fixture(autouse=True)
def _own_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("build")
    monkeypatch.setattr(running, "DURATIONS", folder / "durations")
    monkeypatch.setattr(running, "LOGS", folder / "logs")


def rings(first: str = "true") -> dict[str, Ring]:
    names = {FIRST: ".", "nodes": "actors", "hosts": "deploy", "spark": "spark"}
    found = [
        Ring(name=name, covers="", paths=(path,), command=first if name == FIRST else "true")
        for name, path in names.items()
    ]
    found.append(Ring(name="dependencies", covers="", paths=(".",), command="false", needs="a service"))
    return {ring.name: ring for ring in found}


def judged(
    folder: Path, rows: list[Row], *, first: str = "true", spent_s: float = 0
) -> tuple[list[tuple[str, str]], str]:
    """Return the results by ring, and what was said."""
    checkout, said = Checkout(folder), list[str]()
    runner = Runner(checkout.commit, 0)
    began_s = time.time() - spent_s
    found = judge(rings(first), rows, runner, checkout, began_s, said.append, lambda row, *_: row)
    return [(row.ring, row.result) for row in found], "\n".join(said)


def seconds_left(said: str) -> int:
    """After the first ring, which takes a moment."""
    (found,) = re.findall(r"^(\d+) s are left", said, re.MULTILINE)
    return int(found)


def passed(names: list[str], commit: str, seconds: int = 100) -> list[Row]:
    return [
        Row(ring=name, commit=commit, date="2026-11-28T12:00Z", seconds=seconds, tests=1, result="passed")
        for name in names
    ]


def test_a_ring_that_needs_more_than_every_machine_reaches_is_named_and_not_run(repository: Path) -> None:
    found, said = judged(repository, [])
    assert "dependencies" not in dict(found)
    assert "dependencies runs by make ring-dependencies alone: it needs a service" in said


def test_rings_that_never_passed_are_due(repository: Path) -> None:
    found, said = judged(repository, passed(["nodes"], Checkout(repository).commit()))
    assert found[0] == (FIRST, "passed")
    assert {*found[1:3]} == {("hosts", "passed"), ("spark", "passed")}
    assert "changed: hosts, spark" in said


def test_a_change_of_docs_gets_one_more_ring(repository: Path) -> None:
    rows = passed([*rings()], Checkout(repository).commit())
    commit(repository, "docs/a.md", "text")
    found, said = judged(repository, rows)
    assert found[0] == (FIRST, "passed")
    assert len(found) == 2
    assert "changed: none" in said
    assert f"id: {found[1][0]}" in said
    assert SMALL_S - 60 < seconds_left(said) <= SMALL_S


def test_a_change_runs_what_covers_it(repository: Path) -> None:
    rows = passed([*rings()], Checkout(repository).commit())
    commit(repository, "actors/log/a.py", "changed")
    found, said = judged(repository, rows)
    assert found[1] == ("nodes", "passed")
    assert len(found) == 3
    assert "changed: nodes" in said
    assert LARGE_S - 60 < seconds_left(said) <= LARGE_S


def test_nothing_follows_a_first_ring_that_fails(repository: Path) -> None:
    assert judged(repository, [], first="false")[0] == [(FIRST, "exit status 1")]


def test_what_there_is_no_time_for_is_named(repository: Path) -> None:
    rows = passed([*rings()], "0" * 12)
    found, said = judged(repository, rows, spent_s=LARGE_S)
    assert found == [(FIRST, "passed")]
    assert said.endswith("not run for lack of time: hosts, nodes, spark")


def test_pages_are_a_small_change(repository: Path) -> None:
    """Even if rings are due that an earlier change left."""
    commit(repository, "deploy/a.yaml", "")
    rows = [*passed([*rings()], "0" * 12, 500), *passed([FIRST], Checkout(repository).commit())]
    commit(repository, "docs/a.md", "")
    commit(repository, "README.md", "")
    assert SMALL_S - 60 < seconds_left(judged(repository, rows)[1]) <= SMALL_S
