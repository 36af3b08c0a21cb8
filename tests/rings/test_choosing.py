"""CI runs what is due as far as the time allows, and one ring that the commit's id chooses."""

from __future__ import annotations

from tests.rings.choosing import Choice, choose
from tests.rings.ledger import Row
from tests.rings.ring import FIRST, Ring


def ring(name: str) -> Ring:
    return Ring(name=name, covers="", paths=(name,), command="true")


def row(name: str, seconds: int = 100, result: str = "passed") -> Row:
    return Row(ring=name, commit="c" * 12, date="2026-11-28T12:00Z", seconds=seconds, tests=1, result=result)


RINGS = [ring(FIRST), ring("nodes"), ring("hosts"), ring("spark")]
ROWS = [row("hosts", 700), row("spark", 100), row("nodes", 300)]


def chosen(due: set[str], commit: str, remaining_s: float, slowness: float = 1.0) -> Choice:
    return choose(RINGS, due, ROWS, commit, remaining_s, slowness)


def names(rings: tuple[Ring, ...]) -> list[str]:
    return [ring.name for ring in rings]


def test_one_more_ring_follows_from_the_commit() -> None:
    extras = [chosen(set(), f"{number:08x}", 1_000).extra for number in range(3)]
    assert [extra.name for extra in extras if extra] == ["nodes", "hosts", "spark"]


def test_it_fits_in_the_time() -> None:
    for number in range(4):
        assert names(chosen(set(), f"{number:08x}", 250).runs) == ["spark"]
    assert chosen(set(), "00000000", 50) == Choice((), None, ())


def test_what_is_due_goes_first_and_the_least_recently_passed_before_others() -> None:
    choice = chosen({"nodes", "hosts"}, "00000000", 2_000)
    assert names(choice.runs) == ["hosts", "nodes", "spark"]
    assert choice.extra is choice.runs[-1]
    assert choice.left == ()


def test_one_more_ring_leaves_two_thirds_to_what_is_due() -> None:
    for number in range(4):
        choice = chosen({"nodes", "spark"}, f"{number:08x}", 600)
        assert names(choice.runs[:2]) == ["spark", "nodes"]
        assert choice.left == ()


def test_of_what_is_due_and_does_not_fit_the_commit_chooses() -> None:
    """So that each gets its turn."""
    choices = [chosen({"nodes", "hosts", "spark"}, f"{number:08x}", 1_050) for number in range(2)]
    assert [names(choice.runs) for choice in choices] == [["hosts", "nodes"], ["hosts", "spark"]]
    assert [names(choice.left) for choice in choices] == [["spark"], ["nodes"]]


def test_what_does_not_fit_is_named() -> None:
    choice = chosen({FIRST, "nodes", "hosts"}, "00000001", 500)
    assert names(choice.runs) == ["nodes", "spark"]
    assert names(choice.left) == ["hosts"]


def test_a_slow_machine_runs_less() -> None:
    choice = chosen({"nodes", "hosts"}, "00000001", 1_300, 2.0)
    assert names(choice.runs) == ["nodes", "spark"]
    assert names(choice.left) == ["hosts"]


def test_a_ring_that_never_passed_goes_first() -> None:
    rows = [*ROWS[1:], row("hosts", 5, "1 failed")]
    choice = choose(RINGS, {"nodes", "hosts", "spark"}, rows, "00000000", 2_000, 1.0)
    assert names(choice.runs) == ["hosts", "spark", "nodes"]
