"""The rows of a trail, by a clock of the test."""

from __future__ import annotations

from collections import Counter
from typing import Any

from muster.actors.tables.schemas.administration import ADMINISTRATION_SCHEMA
from muster.gateway.administration.trail import MAX_CHARS, MAX_KEYS, WINDOW_MS, Change, Trail, Who

ANN = Who("User:ann", "10.0.0.1", "tool", "c1")
REFUSED = Change("DeleteTopics", "TOPIC", "t", "TOPIC_AUTHORIZATION_FAILED")


class _Clock:
    ms = 0

    def __call__(self) -> int:
        return self.ms


def _trail() -> tuple[Trail, list[Any], _Clock]:
    rows: list[Any] = []
    clock = _Clock()
    return Trail(rows.append, clock, 3), rows, clock


def test_the_first_attempt_is_written_at_once_and_repeated_ones_as_one_row() -> None:
    trail, rows, clock = _trail()
    for clock.ms in (0, 10, 20):
        trail.record("kafka", ANN, REFUSED)
        trail.settle()
    assert [(row["ts"], row["times"]) for row in rows] == [(0, 1)]
    clock.ms = WINDOW_MS
    trail.settle()
    assert [(row["ts"], row["times"]) for row in rows] == [(0, 1), (20, 2)]
    trail.record("kafka", ANN, REFUSED)
    assert [(row["ts"], row["times"]) for row in rows[2:]] == [(WINDOW_MS, 1)]
    trail.close()
    assert len(rows) == 3
    assert set(rows[0]) == {*ADMINISTRATION_SCHEMA.names}


def test_any_difference_is_another_row() -> None:
    trail, rows, _ = _trail()
    for who in (ANN, ANN._replace(principal="User:bob"), ANN._replace(host="::1"), ANN._replace(client_id=None)):
        trail.record("kafka", who, REFUSED)
    for change in (REFUSED._replace(resource="u"), REFUSED._replace(error="NONE"), REFUSED._replace(detail="d")):
        trail.record("kafka", ANN, change)
    trail.record("http", ANN, REFUSED)
    assert len(rows) == 8


def test_a_flood_is_few_rows_and_every_attempt_is_counted() -> None:
    trail, rows, clock = _trail()
    for number in range(50_000):
        error = "NONE" if number % 2 else REFUSED.error
        trail.record("kafka", ANN, REFUSED._replace(resource=f"t{number}", error=error))
    clock.ms = WINDOW_MS
    trail.settle()
    assert len(rows) <= MAX_KEYS + 2
    times = Counter[str]()
    for row in rows:
        times[row["error"]] += row["times"]
    assert times == {"NONE": 25_000, REFUSED.error: 25_000}
    assert [row["principal"] for row in rows if row["resource"] is None] == [None, None]


def test_names_that_clients_choose_are_bounded() -> None:
    trail, rows, _ = _trail()
    trail.record("kafka", ANN._replace(client_id="x" * 30_000), REFUSED._replace(resource="y" * 30_000))
    assert len(rows[0]["client_id"]) == len(rows[0]["resource"]) == MAX_CHARS + 1
