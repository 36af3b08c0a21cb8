"""The page of answers: what an operator asks first is at its top and in words; tables are short. No Spark."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from markupsafe import escape

from actors.terminal import printable
from spark import plots
from spark.answer import Answer, Column, Plotted, Shown
from spark.findings import findings
from spark.jobs.job import Options, Plot
from spark.report_page import TOP_ROWS, cell_in, render_answers

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def section(name: str, *rows: dict[str, Any], columns: Sequence[str] = ()) -> Shown:
    names = list(rows[0]) if rows else list(columns)
    return Shown(
        name=name,
        title=name,
        note="",
        columns=[Column(column, "string", bool(rows) and isinstance(rows[0][column], int | float)) for column in names],
        rows=[tuple(row.values()) for row in rows],
        cut=False,
    )


def answer(job: str, *sections: Shown) -> Answer:
    return Answer(job=job, title=job, sections=sections)


STANDING = {"verdict": "STALLED", "group": "billing", "topic": "flights", "partition": 3, "lag_messages": 1200}


@pytest.mark.parametrize(
    ("value", "column", "said"),
    [
        (3 << 30, "bytes", "3.0 GiB"),
        (1023, "lost_bytes", "1,023 B"),
        (2048.0, "rate_bytes_per_second", "2.0 KiB/s"),
        (3725.4, "lag_seconds", "1 h 2 min"),
        (0.25, "lag_seconds", "0.25 s"),
        (90_000, "lost_partition_seconds", "90,000"),
        (0.0312, "share", "3.1%"),
        (12_345, "messages", "12,345"),
        (None, "bytes", "-"),
    ],
)
def test_numbers_have_the_units_that_their_columns_tell(value: Any, column: str, said: str) -> None:
    assert cell_in(value, column) == said


def test_the_first_line_says_groups_bytes_share_and_verdicts() -> None:
    charge = section("chargeback", {"group": "billing", "bytes": 3 << 30}, {"group": None, "bytes": 1 << 30})
    lag = section("groups", {"group": "billing", "verdict": "STALLED"}, {"group": "archive", "verdict": "OK"})
    steps = section("per_bucket", {"bucket": NOON}, {"bucket": NOON + timedelta(hours=36)})
    page = render_answers([answer("consumption", steps, charge), answer("lag", lag)], Options(now=NOON))
    assert "2026-05-01 12:00 to 2026-05-03 00:00 UTC · 1 group, 4.0 GiB sent" in page
    assert "· 25.0% of it without a group · lag: 1 STALLED<" in page


def test_what_matters_is_said_in_words_and_what_is_well_is_not() -> None:
    well = {**STANDING, "verdict": "OK", "partition": 4}
    assert findings(answer("lag", section("partitions", STANDING, well))) == [
        "billing is STALLED on flights-3, 1,200 behind."
    ]
    even = {"level": "node", "load": "bytes", "highest_name": "n-1", "max_over_mean": 1.1}
    skewed = {"level": "partition", "load": "commits", "highest_name": "9", "max_over_mean": 7.25}
    assert findings(answer("placement", section("skew", even, skewed))) == [
        "Partition 9 has 7.2 times the commits of the mean partition."
    ]
    outage = {"actor": "offsets-9", "seconds": 1.25, "fault": None}
    assert findings(answer("failover", section("longest", outage))) == ["offsets-9 did not serve for 1.2 s."]


def test_what_is_not_known_is_left_out_of_the_sentence() -> None:
    """The log's end, where no row of it came yet; what was usual, at a gateway that nothing is known of."""
    unknown = {**STANDING, "verdict": "STOPPED", "lag_messages": None}
    assert findings(answer("lag", section("partitions", unknown))) == ["billing is STOPPED on flights-3."]
    culprit = {"group": "billing", "group_instance_id": None, "client_id": None, "host": "::1", "rebalances": 2}
    assert findings(answer("rebalances", section("culprits", {**culprit, "lost_partition_seconds": None}))) == [
        "A client without an id at ::1 caused 2 rebalances of billing."
    ]
    began = datetime(2026, 5, 1, 12, tzinfo=UTC)
    hole = {"gateway": 1, "share": 0.5, "began": began, "expected_share": None, "cause": "unknown"}
    assert findings(answer("attribution", section("holes", hole))) == [
        "Gateway 1 sent 50% without a group from 2026-05-01 12:00 on: unknown."
    ]


def test_rows_beyond_the_top_are_folded() -> None:
    rows = [{"group": f"g-{number:02}"} for number in range(TOP_ROWS + 3)]
    shown, folded = render_answers([answer("lag", section("members", *rows))], Options(now=NOON)).split("<details>")
    assert "<summary>3 more rows</summary>" in folded
    assert f"g-{TOP_ROWS - 1:02}" in shown
    assert f"g-{TOP_ROWS:02}" not in shown
    assert f"g-{TOP_ROWS:02}" in folded
    one_more = render_answers([answer("lag", section("members", *rows[: TOP_ROWS + 1]))], Options(now=NOON))
    assert "<summary>1 more row</summary>" in one_more


def test_empty_tables_have_a_page() -> None:
    empty = section("chargeback", columns=("group", "bytes"))
    page = render_answers([answer("consumption", empty), answer("lag", section("groups"))], Options(now=NOON))
    assert "0 groups, 0 B sent" in page
    assert "<table" not in page


ODD = [
    "_schemas",
    "cost$\\frac$",
    "<script>alert(1)</script>",
    "a\"b'c&d",
    "two\nlines",
    "\u202eleft to right",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u4e2d\u6587",
    '#010101 id="x',
    "x" * 200,
    "x" * 199 + "y",
    "",
]


def drawn_section(kind: Literal["lines", "bars"], rows: list[dict[str, Any]], **more: Any) -> Shown:
    plot = Plot(kind=kind, x=("at",) if kind == "lines" else ("topic",), y="bytes", y_label="bytes", series=("group",))
    return replace(section("plotted", *rows), plot=replace(plot, **more))


def page_of(*sections: Shown, **options: Any) -> str:
    return render_answers([answer("lag", *sections)], Options(now=NOON, **options))


def label_of(page: str) -> str:
    """What its first plot says in words."""
    return html.unescape(page.split('aria-label="')[1].split('"')[0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ODD)
def test_a_group_may_be_called_whatever_it_likes(name: str) -> None:
    rows = [
        {"at": NOON, "topic": name, "group": name, "bytes": 5},
        {"at": NOON, "topic": "t", "group": None, "bytes": 1},
    ]
    page = page_of(drawn_section("lines", rows), drawn_section("bars", rows))
    tree = [ElementTree.fromstring(svg + "</svg>") for svg in re.findall(r"<svg .*?(?=</svg>)", page, re.DOTALL)]
    assert len(tree) == 2
    shown = printable(name)
    for svg in tree:
        texts = [text.text or "" for text in svg.iter() if text.tag.endswith("text")]
        begins, ends = shown[:10], shown[-10:]
        assert any(text.startswith(begins) and text.endswith(ends) for text in texts)
        assert max(map(len, texts)) < 60
    assert f'<td class="long">{html.escape(shown)}<' in page or f"<td>{escape(shown)}<" in page
    assert "<script" not in page


def test_the_largest_bars_are_drawn_and_how_many_are_not() -> None:
    rows = [{"topic": f"t-{number:02}", "group": "billing", "bytes": number} for number in range(30)]
    page = page_of(drawn_section("bars", rows))
    assert label_of(page).split(": ")[1].split(", ")[:2] == ["t-29 29", "t-28 28"]
    assert "t-06 6" in label_of(page)
    assert "t-05" not in label_of(page)
    assert "Drawn are the 24 largest; 6 more are in the table." in page


def test_a_bar_has_as_many_parts_as_there_are_colours_and_the_others() -> None:
    rows = [{"topic": "t", "group": f"g-{number}", "bytes": 10 - number} for number in range(6)]
    page = page_of(drawn_section("bars", rows))
    for text in ("g-0", "g-3", "(others)"):
        assert f">{text}</text>" in page
    assert ">g-4</text>" not in page
    assert label_of(page).endswith("t 45")


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What was drawn last, by name, as minutes after noon and heights."""
    found: dict[str, Any] = {}

    def draw(series: dict[str, list[tuple[datetime, float | None]]], **_: Any) -> str:
        found.clear()
        for name, points in series.items():
            found[name] = [((at - NOON) / timedelta(minutes=1), y) for at, y in points]
        return "<svg></svg>"

    monkeypatch.setattr(plots, "time_lines", draw)
    return found


def minutes(group: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"at": NOON + timedelta(minutes=number), "group": group, "bytes": 1} for number in numbers]


def test_where_a_curve_has_no_points_it_is_zero_or_not_there(curves: dict[str, Any]) -> None:
    rows = [*minutes("a", 0, 1, 5, 6), *minutes("b", 2)]
    page_of(drawn_section("lines", rows, absent_is_zero=True))
    assert curves["a"] == [(0, 1), (1, 1), (2, 0), (4, 0), (5, 1), (6, 1)]
    assert curves["b"] == [(0, 0), (1, 0), (2, 1), (3, 0), (6, 0)]
    page_of(drawn_section("lines", rows))
    assert curves["a"] == [(0, 1), (1, 1), (2, None), (5, 1), (6, 1)]


def test_an_hour_that_comes_twice_is_drawn_twice(curves: dict[str, Any]) -> None:
    zone = ZoneInfo("Europe/Berlin")
    night = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    rows = [
        {"at": (night + timedelta(minutes=30 * number)).astimezone(zone), "group": "a", "bytes": number}
        for number in range(4)
    ]
    page_of(drawn_section("lines", rows), timezone=zone.key)
    assert [y for _, y in curves["a"]] == [0, 1, 2, 3]


def test_a_section_that_is_cut_is_drawn_by_what_spark_sought_out(curves: dict[str, Any]) -> None:
    columns = ("group", "at", "bytes")
    rows = [tuple(row[name] for name in columns) for row in minutes("largest", 0, 10)]
    plotted = Plotted(columns=columns, rows=rows, in_all=7, step_seconds=600)
    cut = replace(drawn_section("lines", minutes("first", 0, 1), absent_is_zero=True), cut=True, plotted=plotted)
    page = page_of(cut)
    assert curves == {"largest": [(0, 1), (10, 1)]}
    assert "Drawn are the 4 highest; 6 more are in the table. A point is the highest value of 600 s." in page
