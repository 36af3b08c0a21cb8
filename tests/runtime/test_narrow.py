"""Tables of any content fitted to any width, and the ids that they show then."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from muster.actors.runtime.narrow import GAP, Column, Kind, fit, is_abbreviation

POD = "payments-settlement-7d9f8b6c5d-x2k0q"
UUIDS = ["52e2dcdf-1b22-4a98-ab02-2505a4d5bc1d", "52e2dcdf-1b23-4c20-ab34-adafb10ae3dd"]
COLUMNS = (
    Column("GROUP", Kind.NAME),
    Column("MEMBER", Kind.ID),
    Column("HOST", optional=True),
    Column("HAS", Kind.LIST, optional=True),
    Column("NOTE", Kind.TEXT, optional=True),
    Column("LAG"),
)
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=("C", "Z", "M")), max_size=60),
    st.builds("spark-kafka-source-{}-driver-{}".format, st.uuids(), st.integers(0, 3)),
)
BASE64 = st.from_regex(r"[0-9A-Za-z_][0-9A-Za-z_-]{18}aB3", fullmatch=True)
IDS = st.one_of(
    NAMES, BASE64, st.builds("{}-{}".format, NAMES, st.uuids()), st.builds("c-{}".format, st.sampled_from(UUIDS))
)
ROWS = st.lists(
    st.tuples(
        NAMES, IDS, st.just("127.0.0.1"), st.lists(NAMES, max_size=4).map(", ".join), NAMES, st.integers(0, 9).map(str)
    ),
    max_size=6,
)


@given(ROWS, st.integers(5, 200))
def test_it_fits_and_what_differs_stays_different(rows: list[tuple[str, ...]], width: int) -> None:
    found = fit(COLUMNS, rows, width)
    kept = [COLUMNS[at] for at in found.kept]
    before = [tuple(row[at] for at in found.kept) for row in rows]
    assert len(found.rows) == len(rows)
    assert {column.title for column in COLUMNS if not column.optional} <= {column.title for column in kept}
    if not found.fits:
        assert list(map(tuple, found.rows)) == before
        return
    widths = [max(map(cell_len, cells)) for cells in zip([column.title for column in kept], *found.rows, strict=True)]
    assert sum(widths) + GAP * (len(kept) - 1) <= width
    for at, column in enumerate(kept):
        pairs = {(row[at], shown[at]) for row, shown in zip(before, found.rows, strict=True)}
        if column.kind in (Kind.NAME, Kind.ID):
            assert len({whole for whole, _ in pairs}) == len({shown for _, shown in pairs})
        elif column.kind is Kind.WHOLE:
            assert all(whole == shown for whole, shown in pairs)


def shown_ids(ids: list[str], width: int) -> list[str]:
    return [cell for (cell,) in fit([Column("M", Kind.ID)], [[each] for each in ids], width).rows]


def test_what_is_shown_of_member_ids() -> None:
    rdkafka = [f"rdkafka-{uuid}" for uuid in UUIDS]
    assert shown_ids(rdkafka, 80) == rdkafka, "there is room"
    assert shown_ids([rdkafka[0], f"{POD}-3994ae13-17e4-4c20-ab34-adafb10ae3dd"], 30) == [
        "rdkafka-52e2dcd",
        "payments-settle…-x2k0q-3994ae1",
    ]
    assert shown_ids(rdkafka, 30) == ["rdkafka-52e2dcdf-1b22", "rdkafka-52e2dcdf-1b23"], "as many digits as necessary"
    assert shown_ids(["TfKTKwHmRVe8O/WX0ajoiw"], 20) == ["TfKTKwH"], "of the consumer protocol"
    assert shown_ids(["9525c2d15cdd204d6cb296d1d4ea14e28ab0be10e0845cbe74091d14"], 20) == ["9525c2d"], "a node of Ray"


def test_names_are_shortened_where_they_do_not_differ() -> None:
    names = [f"spark-kafka-source-{uuid}-1903-driver-0" for uuid in UUIDS]
    first, second = (row[0] for row in fit([Column("G", Kind.NAME)], [[name] for name in names], 30).rows)
    assert first != second
    assert first.endswith("driver-0")


def test_a_list_has_its_first_items_and_the_number_of_the_others() -> None:
    rows = [["flights-0, flights-1, flights-2"], ["flights-3"], ["a-topic-with-a-long-name-0, flights-5"]]
    assert fit([Column("HAS", Kind.LIST)], rows, 23).rows == [
        ["flights-0, flights-1 +1"],
        ["flights-3"],
        ["a-topic-wi…ng-name-0 +1"],
    ]


@given(
    st.lists(st.builds("{}-{}".format, NAMES, st.uuids()), min_size=1, max_size=5, unique=True)
    | BASE64.map(lambda each: [each]),
    st.integers(10, 99),
)
@example(["AbcdeF-123456789012345"], 10)
def test_what_is_shown_of_an_id_identifies_it(ids: list[str], width: int) -> None:
    for whole, shown in zip(ids, shown_ids(ids, width), strict=True):
        assert [each for each in ids if each == shown or is_abbreviation(shown, each)] == [whole]


@pytest.mark.parametrize(
    "text", ["", "…", "rdkafka", "rdkafka-", "rdkafka-52e2dc", "52e2dcd", "r…", "rdkafka-1-52e2dcd"]
)
def test_too_little_is_no_abbreviation(text: str) -> None:
    assert not is_abbreviation(text, f"rdkafka-{UUIDS[0]}")
    assert not is_abbreviation(text, "rdkafka-1")
