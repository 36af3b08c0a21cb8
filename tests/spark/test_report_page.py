"""The page of answers: what an operator asks first is at its top and in words; tables are short. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark.answer import Answer, Column, Shown
from spark.findings import findings
from spark.jobs.job import Options
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


def test_empty_tables_have_a_page() -> None:
    empty = section("chargeback", columns=("group", "bytes"))
    page = render_answers([answer("consumption", empty), answer("lag", section("groups"))], Options(now=NOON))
    assert "0 groups, 0 B sent" in page
    assert "<table>" not in page
