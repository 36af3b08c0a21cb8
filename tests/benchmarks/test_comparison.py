"""Rounds, ratios, goals and the pages of ``make bench``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.comparison import result
from benchmarks.comparison.rows import Goal, Measure, Measured, Rounds, Row, Wrong, compare
from benchmarks.comparison.servers import NotStarted, Server

MUSTER, KAFKA = NotStarted("Muster"), NotStarted("Kafka")
ROW = Row("r", "A row", lambda muster, kafka: contextmanager(lambda: iter([]))(), (Goal("per_second", at_least=2),))
MACHINE = {"cores": 2, "memory_gib": 24, "python": "3.11.7", "load_average_1min_before": 0.1}


def rounds(muster: list[float], kafka: list[float]) -> Rounds:
    return Rounds("r", [{"per_second": each} for each in muster], [{"per_second": each} for each in kafka])


def test_the_ratio_is_the_median_of_the_pairs() -> None:
    """A machine that is slow for one pair slows both; medians of each side would not show that."""
    found = rounds([10.0, 100.0, 30.0], [5.0, 50.0, 10.0])
    assert found.ratio("per_second") == 2.0
    assert found.median("Muster", "per_second") == 30.0
    assert found.spread("Kafka", "per_second") == (5.0, 50.0)


@pytest.mark.parametrize(
    ("goal", "value", "is_met"),
    [
        (Goal("x", at_least=2), 2.0, True),
        (Goal("x", at_least=2), 1.99, False),
        (Goal("x", at_most=0.5), 0.5, True),
        (Goal("x", at_most=0.5), 0.51, False),
    ],
)
def test_goals(goal: Goal, value: float, is_met: bool) -> None:
    assert goal.is_met(value) is is_met


def test_a_goal_without_kafka_is_for_musters_own_value() -> None:
    row = Row("r", "A row", ROW.open, (Goal("per_second", at_most=25, of_kafka=False),))
    (line,) = result.lines(row, rounds([20.0], [2.0]))
    assert (line.is_met, line.goal, line.ratio) == (True, "at most 25", 10.0)


def test_what_kafka_does_not_have_has_no_ratio() -> None:
    (line,) = result.lines(ROW, rounds([20.0], [0.0]))
    assert line.cells[-2] == ""


def test_both_are_measured_in_turn_once_they_are_steady() -> None:
    order: list[tuple[str, float]] = []
    steady = {"Muster": iter([50.0, 90.0, 91.0]), "Kafka": iter([100.0, 101.0])}

    @contextmanager
    def opened(muster: Server, kafka: Server) -> Iterator[Measure]:
        def measure(server: Server, seconds: float) -> Measured:
            order.append((server.name, seconds))
            return {"per_second": next(steady[server.name], 7.0)}

        yield measure

    found = compare(Row("r", "A row", opened, seconds=3.0), MUSTER, KAFKA, rounds=2)
    assert order[:5] == [("Muster", 1.0)] * 3 + [("Kafka", 1.0)] * 2
    assert order[5:] == [("Muster", 3.0), ("Kafka", 3.0), ("Kafka", 3.0), ("Muster", 3.0)]
    assert found.muster == found.kafka == [{"per_second": 7.0}] * 2


def test_a_row_that_fails_keeps_its_rounds_and_says_why() -> None:
    calls = iter(range(100))

    @contextmanager
    def opened(muster: Server, kafka: Server) -> Iterator[Measure]:
        def measure(server: Server, seconds: float) -> Measured:
            if next(calls) == 4:
                raise Wrong("Kafka: 3 responses, errors {25: 3}")
            return {"per_second": 7.0}

        yield measure

    found = compare(Row("r", "A row", opened, steady=""), MUSTER, KAFKA, rounds=5)
    assert (found.muster, found.kafka) == ([{"per_second": 7.0}] * 2, [{"per_second": 7.0}] * 2)
    assert found.failure == "Wrong: Kafka: 3 responses, errors {25: 3}"


def test_the_page_says_which_goal_is_missed() -> None:
    found = list(result.lines(ROW, rounds([3.0, 4.0, 5.0], [4.0, 4.0, 4.0])))
    page = result.markdown(found, MACHINE)
    assert page.splitlines()[-1] == "| A row | per second | 4 (3 to 5) | 4 (4 to 4) | 1.00 | at least 2x, MISSED |"


def test_two_runs_beside_each_other(tmp_path: Path) -> None:
    for name, muster in (("before", 50.0), ("after", 75.0)):
        of_run = rounds([muster], [100.0])
        result.write(tmp_path / name, list(result.lines(ROW, of_run)), [of_run], MACHINE)
    assert json.loads((tmp_path / "after").read_text())["rounds"]["r"]["Muster"] == [{"per_second": 75.0}]
    console = Console(width=120, record=True)
    console.print(result.beside(tmp_path / "before", tmp_path / "after"))
    assert console.export_text().split()[-7:] == ["50", "75", "+50%", "100", "100", "0.50", "0.75"]
