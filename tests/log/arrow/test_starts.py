"""Where records begin in large batches, which are cut into sections at guessed positions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import pytest

from muster.actors.log.format.arrow import starts
from muster.actors.log.format.arrow.varints import PADDING_BYTES, Int64s, words_of
from tests.log.arrow.batches import Row, batch_of, payload_of
from tests.log.arrow.test_damage import hold

MANY = 3_000


def texts() -> Iterable[Row]:
    draw = random.Random(1)
    for number in range(MANY):
        yield Row(number, number // 7, b"%06d" % number, b"text" * draw.randrange(40))


def nulls_and_headers() -> Iterable[Row]:
    for number in range(MANY):
        headers = ((b"name", b"content"), (b"", None)) if number % 3 else ()
        yield Row(number, -number, None if number % 5 else b"", None if number % 2 else b"v", headers)


def distant_timestamps() -> Iterable[Row]:
    draw = random.Random(2)
    for number in range(MANY):
        yield Row(number, draw.choice([0, 1 << 14, -(1 << 40), 1 << 55]), b"k", draw.randbytes(90))


def zeros() -> Iterable[Row]:
    for number in range(MANY):
        yield Row(number, 0, None, bytes(50 + number % 60))


def records_in_records() -> Iterable[Row]:
    inner = payload_of([Row(number, 0, b"k", b"v" * 10) for number in range(5, 12)])
    for number in range(MANY):
        yield Row(number, 0, b"", inner)


def large_and_small() -> Iterable[Row]:
    for number in range(MANY):
        yield Row(number, 0, b"k", b"x" * (20_000 if number % 900 == 450 else 30))


def compacted() -> Iterable[Row]:
    for number in range(MANY):
        yield Row(2 * number + number // 40, 0, b"k", b"x" * 60)


def a_few_compacted() -> Iterable[Row]:
    for number in range(MANY):
        yield Row(number if number < MANY // 2 else number + 5, 0, b"k", b"x" * 60)


def many_compacted() -> Iterable[Row]:
    for number in range(MANY):
        yield Row(number if number < 100 else number + MANY, 0, b"k", b"x" * 60)


REGULAR = [texts, nulls_and_headers, distant_timestamps, zeros, records_in_records, large_and_small]


def cut(records: bytes, count: int) -> tuple[Int64s, Int64s]:
    room = np.frombuffer(records + bytes(PADDING_BYTES), np.uint8).data
    return starts._cut(words_of(room, len(records)), np.array([0]), np.array([count]))


def begins(rows: Iterable[Row]) -> list[int]:
    return list(accumulate((len(payload_of([row])) for row in rows), initial=0))


@pytest.mark.parametrize("make", [texts, nulls_and_headers, distant_timestamps, large_and_small])
def test_sections_begin_with_records(make: type[Iterable[Row]]) -> None:
    rows = list(make())
    at, counts = cut(payload_of(rows), MANY)
    assert len(at) > 10
    wanted = begins(rows)
    assert at.tolist() == [wanted[number] for number in np.cumsum(counts) - counts]
    assert counts.sum() == MANY


@pytest.mark.parametrize("make", [*REGULAR, compacted, a_few_compacted, many_compacted])
@pytest.mark.parametrize("section_records", [1, 8, 64])
def test_records_of_batches_that_are_cut(
    make: type[Iterable[Row]], section_records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "_MIN_SECTION_RECORDS", section_records)
    monkeypatch.setattr(starts, "_SECTIONS", MANY // section_records)
    rows = list(make())
    batch = batch_of(0, rows)
    neighbour = batch_of(rows[-1].offset_delta + 1, rows[:200])
    assert hold([batch, neighbour])


@pytest.mark.parametrize("make", REGULAR)
def test_damage_in_batches_that_are_cut(make: type[Iterable[Row]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "_MIN_SECTION_RECORDS", 2)
    monkeypatch.setattr(starts, "_SECTIONS", 100)
    rows, draw = list(make())[:200], random.Random(3)
    records, wanted = payload_of(rows), begins(rows)
    for _ in range(100):
        damaged = bytearray(records)
        at = wanted[draw.randrange(200)] + draw.randrange(6)
        damaged[at] = draw.randrange(256)
        hold([batch_of(0, rows, payload=bytes(damaged))])
