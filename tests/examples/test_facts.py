"""The answer of a run: its figures are those of the clients, and a bad one looks bad."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from examples.demo.arrivals import Arrived, Wait
from examples.demo.checks import Seen, check_all
from examples.demo.consumption import Unattributed
from examples.demo.display import Display
from examples.demo.facts import facts, lag_curves, wait_heads, wait_lines
from tests.examples.recorded import recorded


def with_wait(seen: Seen, group: str, partition: int | None, from_s: float, to_s: float) -> Seen:
    """Return the run with one more wait, in seconds since its start."""
    from_s, to_s = seen.started_s + from_s, seen.started_s + to_s
    wait = Wait(partition=partition, since_s=from_s, from_s=from_s, to_s=to_s)
    first, *others = seen.groups[group].members
    member = replace(first, arrived=replace(first.arrived, waits=[*first.arrived.waits, wait]))
    return replace(seen, groups={**seen.groups, group: replace(seen.groups[group], members=[member, *others])})


def test_a_recorded_run_says_who_was_out_what_was_lost_and_whose_the_bytes_are() -> None:
    out, lost, whose = facts(recorded())
    assert (out.figure, out.is_good) == ("0.84 s", True)
    assert out.details == [
        "Archive waited for a record of partition 2, until 0.84 s after gateway-3 was killed on 2026-11-29 at "
        "10:34:10 UTC.",
        "After offsets-9 was killed at 10:33:53 UTC: at most 0.4 s (billing's commits).",
        "Apart from the kills: at most 1.3 s (dashboard's records).",
    ]
    assert (lost.figure, lost.is_good) == ("0 of 336,776", True)
    assert lost.details == ["Each of the 3 groups received every record.", "0 written twice, 0 received again."]
    assert (whose.figure, whose.is_good) == ("100% known", True)
    assert whose.details == [
        "313.5 MiB of 313.5 MiB have a group: archive 104.5 MiB, billing 104.5 MiB, dashboard 104.5 MiB.",
        "Evidence: unique_candidate 100%.",
    ]


def test_the_longest_waits_are_by_client_and_kill() -> None:
    seen = recorded()
    assert wait_heads(seen) == ["after offsets-9 was killed", "after gateway-3 was killed", "apart from the kills"]
    lines = {line.label: line.longest for line in wait_lines(seen)}
    assert list(lines) == ["producer"] + [
        f"{group}: {what}" for group in ("billing", "dashboard", "archive") for what in ("records", "commits")
    ]
    assert lines["billing: commits"] == ["0.4 s", "< 0.1 s", "0.53 s"]
    assert lines["archive: records"][1] == "0.84 s"


@pytest.mark.parametrize(
    ("begin_s", "end_s", "figure", "said"),
    [
        (-2.0, 3.0, "3 s", "until 3 s after"),  # what is before the kill does not count
        (4.0, 9.0, "5 s", "until 9 s after"),
        (6.0, 9.0, "0.84 s", "Apart from the kills: at most 3 s (billing's commits)."),
    ],
)
def test_a_wait_is_an_outage_from_the_kill_on_if_it_begins_soon_after(
    begin_s: float, end_s: float, figure: str, said: str
) -> None:
    seen = recorded()
    at_s = seen.gateway.at_s
    out, *_ = facts(with_wait(seen, "billing", None, at_s + begin_s, at_s + end_s))
    assert out.figure == figure
    assert any(said in detail for detail in out.details), out.details


def test_without_waits_nobody_was_out() -> None:
    seen = replace(recorded(), acknowledged=Arrived())
    quiet = {
        name: replace(group, members=[replace(member, arrived=Arrived()) for member in group.members])
        for name, group in seen.groups.items()
    }
    out, *_ = facts(replace(seen, groups=quiet))
    assert (out.figure, out.details[-1]) == ("< 0.1 s", "Apart from the kills: less than 0.1 s.")


def test_lag_peaks_at_the_kill_and_the_curves_share_their_steps() -> None:
    seen = recorded()
    curves = lag_curves(seen)
    assert [at_s for at_s, _ in curves["billing"]] == [at_s for at_s, _ in curves["archive"]]
    at_the_kill = [
        max(lag_s for at_s, lag_s in curve if 0 <= at_s - seen.gateway.at_s < 2) for curve in curves.values()
    ]
    assert all(0.7 < lag_s < 1.0 for lag_s in at_the_kill), at_the_kill
    assert {curve[-1][1] for curve in curves.values()} == {0.0}


def test_a_loss_is_shown() -> None:
    seen = recorded()
    member = seen.groups["billing"].members[0]
    lossy = replace(seen.groups["billing"], members=[replace(member, rows=b"\xfe" + member.rows[1:])])
    _, lost, _ = facts(replace(seen, groups={**seen.groups, "billing": lossy}))
    assert (lost.figure, lost.details[0], lost.is_good) == ("1 of 336,776", "Billing lacks 1.", False)


def test_a_record_that_was_written_twice_is_shown() -> None:
    seen = recorded()
    _, lost, _ = facts(replace(seen, ends={**seen.ends, 0: seen.ends[0] + 2}))
    assert (lost.figure, lost.details[1], lost.is_good) == (
        "0 of 336,776",
        "2 written twice, 0 received again.",
        False,
    )


def test_bytes_without_a_group_are_shown_and_never_rounded_away() -> None:
    seen = recorded()
    assert seen.consumption is not None
    stray = Unattributed(reason="no_group", topic="flights", client_id="x", host="127.0.0.1", messages=1, bytes=300)
    _, _, whose = facts(replace(seen, consumption=replace(seen.consumption, unattributed=(stray,))))
    assert (whose.figure, whose.is_good) == ("99.9% known", False)
    _, _, failed = facts(replace(seen, consumption=None))
    assert (failed.figure, failed.details, failed.is_good) == ("unknown", ["The Spark job failed."], False)


def test_the_last_lines_of_the_terminal_are_the_facts_in_80_columns() -> None:
    seen = recorded()
    display = Display([], 1)
    display.console = Console(file=io.StringIO(), width=80)
    display.conclusion(facts(seen), check_all(seen), Path("demo-report.html"))
    assert isinstance(display.console.file, io.StringIO)
    assert [line.rstrip() for line in display.console.file.getvalue().splitlines()] == [
        "Out     0.84 s        archive's records, after gateway-3 was killed",
        "Lost    0 of 336,776  0 written twice, 0 received again",
        "Whose   100% known    archive 104.5 MiB, billing 104.5 MiB, dashboard 104.5 MiB",
        "Checks  all 18 ok",
        "Page    demo-report.html",
        "Console make demo KEEP=1 keeps Muster running and says where its console is",
    ]
