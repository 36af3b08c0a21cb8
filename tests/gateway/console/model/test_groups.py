from __future__ import annotations

from muster.gateway.console.model.groups import Choice, chosen, page, table
from muster.gateway.console.model.snapshot import GroupRow, group_row

HOSTILE = "<img src=x onerror=alert(1)>"


def row(group: str, lag: int | None = 0, lag_s: float | None = 0.0, **changed: object) -> GroupRow:
    return group_row({"group": group, "state": "Stable", "lag": lag, "lag_s": lag_s, **changed})


ROWS = [row("b", 5, 1.0), row("a", 7, 90.0, members=2), row("c", None, None), row(HOSTILE, 1, 2.0, state="Empty")]


def names(**query: str) -> list[str]:
    return [each.group for each in chosen(ROWS, Choice.of(query), {"a": 3.0, "b": 9.0})]


def test_the_worst_come_first_and_what_is_unknown_last() -> None:
    assert names() == ["a", HOSTILE, "b", "c"]


def test_unknown_values_come_last_in_both_directions() -> None:
    assert names(sort="lag") == [HOSTILE, "b", "a", "c"]
    assert names(sort="lag", desc="1") == ["a", "b", HOSTILE, "c"]
    assert names(sort="bytes_s", desc="1")[:2] == ["b", "a"]


def test_filters() -> None:
    assert names(q="IMG") == [HOSTILE]
    assert names(state="Empty") == [HOSTILE]
    assert names(show="behind") == ["a"]
    assert names(show="idle") == [HOSTILE, "b"]


def test_what_no_column_is_called_sorts_nothing() -> None:
    assert Choice.of({"sort": "__class__", "show": "nonsense"}) == Choice()


def test_a_page_has_texts_only_and_names_as_they_are() -> None:
    (first, *_) = page(chosen(ROWS, Choice.of({"q": "img"}), {}), {}, 0, 100)
    assert first["group"] == HOSTILE
    assert first["bytes_s"] == "–"  # noqa: RUF001
    assert all(isinstance(value, str) for value in first.values())


def test_a_csv_has_no_formulas() -> None:
    found = table([row("=cmd()"), row('a,"b')], {}).to_csv().splitlines()
    assert found[1].startswith("'=cmd(),")
    assert found[2].startswith('"a,""b",')
