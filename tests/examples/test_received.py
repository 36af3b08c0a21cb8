"""A consumer's count is exact: by position and by content."""

from __future__ import annotations

import json
import random

import pytest

from examples.demo.dataset import ROWS, flights, row_number
from examples.demo.received import Received, missing_rows, union


def test_the_data_set_is_whole_and_each_row_says_its_number() -> None:
    table = flights()
    assert table.num_rows == ROWS
    values = table["value"].to_pylist()
    for number in (0, 838, ROWS - 1):
        row = json.loads(values[number])
        assert row["row"] == row_number(values[number].encode()) == number
        assert row["carrier"] == table["key"][number].as_py()
    first, cancelled = json.loads(values[0]), json.loads(values[838])
    assert (first["dep_time"], first["tailnum"], first["time_hour"]) == (517, "N14228", "2013-01-01T10:00:00Z")
    assert (cancelled["dep_time"], cancelled["tailnum"]) == (None, "N18120")


def test_what_is_not_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="not a row"):
        row_number(b'{"year":2013}')


def test_intervals_union_and_rows_agree_with_sets() -> None:
    chance = random.Random(3)
    received = Received(100)
    offsets: set[int] = set()
    position = 0
    for _ in range(300):
        position = chance.randrange(100) if chance.random() < 0.1 else (position + 1) % 100
        received.add(0, position, position)
        offsets.add(position)
    said = received.to_json()
    found = union((first, last) for first, last in said["intervals"]["0"])
    assert {offset for first, last in found for offset in range(first, last + 1)} == offsets
    assert missing_rows([bytes(received._rows)], 100) == sorted(set(range(100)) - offsets)
    assert said["total"] == 300
    assert received.next_offset == {0: max(offsets) + 1}


def test_union_joins_neighbours_and_keeps_gaps() -> None:
    assert union([(5, 9), (0, 4), (12, 13), (6, 7)]) == [(0, 9), (12, 13)]
    assert union([]) == []
