"""Answers on a terminal of 80 columns: a line for each group, whatever the names are. No Spark."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from muster.spark.render.job_screens import DETAIL_ROWS, print_screens
from muster.spark.render.narrow import fitted
from muster.spark.render.screens import SCREENS
from muster.spark.render.screens.screen import Lead
from muster.spark.result import JobResult
from tests.spark.render.pages import result, section, standing
from tests.spark.rows import NOON

LONG = [f"the-data-platform-team.consumer-{number}.of-the-nightly-job.production" for number in range(3)]
UUID = "9f62-4146-be10-11fb757b86c4"


def shown(found: JobResult, *, details: bool = False, width: int = 80) -> tuple[list[str], list[str]]:
    """Return the lines, and what is said to be left out."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None, highlight=False)
    left_out = print_screens([found], console, details=details)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert all(cell_len(line) <= width for line in lines)
    return lines, left_out


def many_lags() -> JobResult:
    groups = [
        standing("fraud-detection", "STOPPED", 12_016, lost_messages=7, lag_seconds=94.9),
        standing("search-indexer", "WARNING", 28_533, rule="the lag did not fall in its last 7 rows of commits"),
        standing("billing"),
    ]
    sums = {"groups": 3, "stuck_groups": 1, "behind_groups": 1, "lag_messages": 40_549, "lost_messages": 7}
    return result("lag", section("groups", *groups, total=sums), section("members", {"member_id": f"rdkafka-{UUID}"}))


def test_lag_has_a_line_for_each_group_the_worst_first_and_their_sum() -> None:
    lines, left_out = shown(many_lags())
    table = lines[lines.index("", 1) + 1 :]
    assert [line.split()[0] for line in table] == ["GROUP", "fraud-detection", "search-indexer", "billing", "total:"]
    assert table[1].split()[:4] == ["fraud-detection", "STOPPED", "12,016", "1"]
    assert table[-1].split() == ["total:", "3", "groups", "40,549"]
    assert lines[1:3] == [
        "lag: Who is behind, and will they catch up?",
        "ACT: 1 of 3 groups gets no further: fraud-detection (STOPPED, 12,016 behind). 1",
    ]
    assert left_out == [
        "DELETED UNREAD and WHY are hidden; --wide shows them",
        "--details shows all tables, --json all rows",
    ]
    wide, _ = shown(many_lags(), width=160)
    assert "WHY" in wide[5]


def of_every_job() -> dict[str, JobResult]:
    """With long names wherever there is one."""
    rebalanced = {"rebalances": 14_000, "per_hour": 1_234.56, "lost_partition_seconds": 182_196.4, "max_seconds": 6.08}
    waited = {"waited_rebalances": 1, "waited_seconds": 11.6}
    triggered = {"client_id": LONG[0], "host": "2001:db8::1234:5678:9abc:def0", "group_instance_id": None}
    outage = {"fault": "kill", "detect_seconds": 0.4, "began": NOON, "reason": "its process is gone: " + UUID}
    load = {"highest_name": "9", "max_over_mean": 8.5, "highest": 4096.0, "mean": 1024.0, "places": 50, "gini": 0.9}
    return {
        "lag": result("lag", section("groups", *(standing(name, "STALLED", 10**12) for name in LONG))),
        "consumption": result(
            "consumption",
            section(
                "chargeback",
                *(
                    {"group": name, "bytes": 1 << 50, "messages": 10**12, "cost": 12.5, "share_percent": 33.3}
                    for name in LONG
                ),
            ),
            section("groups", *({"group": name, "resent": 10**9, "distinct": 10**12} for name in LONG)),
        ),
        "rebalances": result(
            "rebalances",
            section("groups", *({"group": name, "cause": "member left", **rebalanced} for name in LONG)),
            section(
                "culprits", {"group": LONG[0], "rebalances": 12, "lost_partition_seconds": 5.0, **waited, **triggered}
            ),
        ),
        "attribution": result(
            "attribution",
            section(
                "reasons",
                *({"reason": why, "bytes": 1 << 50, "share": 0.25, "messages": 10**12} for why in ("ambiguous", None)),
            ),
        ),
        "placement": result(
            "placement",
            section("skew", *({"level": level, "load": "bytes", **load} for level in ("partition", "node"))),
        ),
        "failover": result(
            "failover",
            section(
                "open",
                {"actor": "offsets-49", "open_seconds": 90_000.0, "seconds": None, "node_id": "f" * 56, **outage},
            ),
            section(
                "longest", {"actor": "gateway-1", "seconds": 1.25, "open_seconds": None, "node_id": "f" * 56, **outage}
            ),
        ),
    }


@pytest.mark.parametrize("job", [each.job for each in SCREENS])
def test_no_screen_needs_more_than_80_columns_or_more_than_a_line_for_each_row(job: str) -> None:
    found = of_every_job()[job]
    (screen,) = [each.screen(found) for each in SCREENS if each.job == job]
    lines, _ = shown(found)
    table = lines[len(lines) - 1 - lines[::-1].index("") + 1 :]
    assert len(table) == 1 + len(screen.rows) + (screen.total is not None)
    assert table[0] == table[0].upper()
    if screen.columns[0].name == "group":
        names = [line.split()[0] for line in table[1:4]]
        assert len(set(names)) == len(LONG)
        assert all(name.startswith("the-") for name in names)


def test_details_have_all_tables_in_the_columns_that_fit_with_short_member_ids() -> None:
    ids = [f"rdkafka-0ac348c{number:x}-{UUID}" for number in range(DETAIL_ROWS + 2)]
    ids[1] = ids[0].replace("9f62", "9f63")  # differs from the first one behind the part that is shown
    who = {"topic": "flights", "partition": 7, "group": LONG[0]}
    more = {"client_id": "rdkafka", "host": "10.0.0.1", "offset": 5, "committed": NOON, "log_end": 10**9}
    rows = [{**who, "member_id": name, **more} for name in ids]
    lines, left_out = shown(
        result("lag", section("groups", standing("billing")), section("partitions", *rows)), details=True
    )
    assert lines[-1] == "2 more"
    heads, *table = lines[-DETAIL_ROWS - 2 : -1]
    assert heads.split()[:4] == ["GROUP", "TOPIC", "PARTITION", "MEMBER"]
    members = [line.split()[3] for line in table]
    assert members[2] == "rdkafka-0ac348c2"
    assert len(set(members)) == DETAIL_ROWS
    assert "HOST" in heads
    assert left_out == ["some columns are hidden; --wide shows them"]


@pytest.mark.parametrize(
    "names",
    [
        LONG,
        ["\u8acb\u6c42\u66f8" * 20 + str(number) for number in range(3)],
        [f"{'a' * 30}{first}{'b' * 30}{last}{'c' * 30}" for first, last in ("xx", "xy", "yx")],
    ],
)
def test_names_are_shortened_and_never_alike(names: list[str]) -> None:
    leads = [Lead(name="group", label="group"), Lead(name="lag", label="lag"), Lead(name="topic", label="topic")]
    found = fitted(leads, [{"group": name, "lag": 10**12, "topic": "t" * 40} for name in names], 60)
    assert found.left_out == []
    assert len({row[0] for row in found.rows}) == len(names)
    assert all("\u2026" in row[0] and sum(map(cell_len, row)) + 4 <= 60 for row in found.rows)


def test_columns_are_left_out_from_the_least_important_one() -> None:
    leads = [
        Lead(name="group", label="group"),
        *(Lead(name=name, label=name * 8) for name in "abc"),
        Lead(name="m", label="minor", minor=True),
        Lead(name="why", label="why", is_text=True),
        Lead(name="empty", label="nobody has it"),
    ]
    row: dict[str, Any] = {"group": "billing", **dict.fromkeys("abcm", 1), "why": "for some reason", "empty": None}
    for width, left_out in (
        (61, []),
        (60, ["WHY"]),
        (44, ["WHY"]),
        (43, ["MINOR", "WHY"]),
        (36, ["CCCCCCCC", "MINOR", "WHY"]),
    ):
        assert sorted(fitted(leads, [row], width).left_out) == left_out
