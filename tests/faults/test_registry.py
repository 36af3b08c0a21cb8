"""The faults that the controller keeps, and that its successor has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.faults import Fault
from muster.actors.faults.registry import FaultRegistry, Target


@pytest.fixture
def now_ms() -> list[int]:
    return [1_000]


def registry(tmp_path: Path, now_ms: list[int]) -> FaultRegistry:
    return FaultRegistry(tmp_path / "run" / "faults.json", lambda: now_ms[0])


def test_a_successor_has_the_faults_their_counts_and_their_numbers(tmp_path: Path, now_ms: list[int]) -> None:
    first = registry(tmp_path, now_ms)
    once = first.add(first.next_id(), Fault("drop", when="once"))
    always = first.add(first.next_id(), Fault("close", expires_ms=500))
    held = first.add(
        first.next_id(), Fault("pause", actor="log-0"), Target(actor="log-0", pid=4, node_id="n", holder=5)
    )
    assert [first.draw(once.id), first.draw(once.id)] == [1, 2]
    first.report({always.id: 3, "gone": 1})
    second = registry(tmp_path, now_ms)
    second.load()
    assert second.entries == [once, always, held]
    assert (once.matched, once.hits, always.matched, always.hits) == (2, 1, 3, 3)
    assert second.book() == first.book()
    assert second.draw(once.id) == 3
    assert second.next_id() == "f-4"


def test_a_book_has_what_is_left_and_only_faults_of_requests(tmp_path: Path, now_ms: list[int]) -> None:
    faults = registry(tmp_path, now_ms)
    fault = Fault("close", expires_ms=500)
    faults.add("f-1", fault)
    faults.add("f-2", Fault("pause", actor="log-0"))
    now_ms[0] += 400
    assert faults.book().faults == (("f-1", fault, 100),)
    assert faults.expired() == []
    now_ms[0] += 100
    assert [entry.id for entry in faults.expired()] == ["f-1"]
    version = faults.book().version
    assert [entry.id for entry in faults.remove("f-1", "f-9")] == ["f-1"]
    assert faults.book().version > version
    assert faults.draw("f-1") == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1, "last_id": 1, "faults": [{}]}'])
def test_a_damaged_file_is_said_and_left_out(
    tmp_path: Path, now_ms: list[int], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    faults = registry(tmp_path, now_ms)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "faults.json").write_text(text)
    faults.load()
    assert faults.entries == []
    assert "its faults are forgotten" in caplog.text


def test_a_new_run_has_no_faults(tmp_path: Path, now_ms: list[int]) -> None:
    registry(tmp_path, now_ms).add("f-1", Fault("drop"))
    faults = registry(tmp_path, now_ms)
    faults.forget()
    faults.load()
    assert faults.entries == []


def test_a_controller_on_another_node_has_gateways_forget_what_it_does_not_know(
    tmp_path: Path, now_ms: list[int]
) -> None:
    before = registry(tmp_path / "a", now_ms)
    before.add("f-1", Fault("drop"))
    now_ms[0] += 1
    elsewhere = registry(tmp_path / "b", now_ms)
    elsewhere.load()
    assert elsewhere.book().faults == ()
    assert elsewhere.book().version > before.book().version
