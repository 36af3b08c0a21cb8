"""Output of muster groups history for a rebalance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console

from muster.actors.group.events import Removal
from muster.actors.group.types import MemberId
from muster.actors.runtime import rich_console
from muster.actors.tables.rebalance_entry import Ending, Gone, Wait, Waits
from muster.gateway.cli.groups.admin import EVICTED
from muster.gateway.cli.groups.commands import groups
from muster.gateway.cli.groups.history import row
from tests.cli.runner import runner
from tests.cli.test_coordinator import gateways
from tests.narrow_terminal import terminal
from tests.tables.rebalances import A, B, aborted, entry


def test_a_rebalance() -> None:
    assert row(entry(3).to_json()) == (
        "2023-11-15 12:00:03.000",
        3,
        "stable",
        "member left: b-1 at 10.0.0.8 (closed)",
        "0.3",
        "0.1",
        "a-1 joined after 0.3 s; handed-out id b-1 0.2 s; a-1 synced after 0.1 s",
        "range (eager)",
        "2 -> 1 (+5 -2)",
        "2 of 3",
        "0.8",
    )


def test_who_never_came_and_the_initial_delay() -> None:
    waits = {"pending": (), "sync_waits": Waits((Wait(B, None, 60_000),)), "join_waits": Waits((Wait(A, 0, 0),))}
    shown = row(entry(1, from_state="Empty", **waits).to_json())
    assert shown[6] == "initial delay; b-1 never synced, waited for 60.0 s"


@pytest.mark.parametrize(
    ("cause", "reason", "shown"),
    [
        (None, EVICTED, "b-1 never joined, evicted after 11.6 s"),
        (None, "closed", "b-1 never joined, left after 11.6 s"),
        (Removal.REBALANCE_TIMEOUT, None, "b-1 never joined, waited for 11.6 s"),
    ],
)
def test_how_the_wait_for_a_member_ended(cause: Removal | None, reason: str | None, shown: str) -> None:
    awaited = {"join_waits": Waits((Wait(B, None, 11_600),)), "pending": (), "sync_waits": Waits()}
    changes = {"members_before": 3, "members_after": 3, "added_left_out": 0, "gone": (Gone(B, cause, reason),)}
    cells = row(entry(1, **awaited, **changes).to_json())
    assert (cells[6], cells[8]) == (shown, "3 -> 3 (+1 -1)")


def response(entries: list[dict[str, Any]]) -> tuple[int, bytes]:
    return 200, json.dumps({"group": "billing", "entries": entries, "request": "PATH"}).encode()


def test_a_narrow_terminal_has_long_waits_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evicted = {"join_waits": Waits((Wait(B, None, 11_600),)), "pending": (), "gone": (Gone(B, None, EVICTED),)}
    entries = [entry(2, reason=EVICTED, **evicted).to_json(), entry(1).to_json()]
    with gateways(tmp_path, response(entries)), terminal(80, monkeypatch) as screen:
        groups.main(["history", "billing", "--storage", str(tmp_path)], standalone_mode=False)
    screen.check(80)
    assert ["member evicted: b-1" in line for line in screen.lines[1:3]] == [True, False]
    assert any("  b-1 never joined, evicted after 11.6 s" in line for line in screen.lines[3:])
    assert not any("WAITED FOR" in line for line in screen.lines)


def test_member_ids_are_shortened() -> None:
    long = B._replace(member_id=MemberId("b-0c2d3e4f-1111-2222-3333-0123456789ab"))
    assert row(entry(1, triggered_by=long).to_json())[3] == "member left: b-0c2d3e4f at 10.0.0.8 (closed)"


def test_what_is_not_known() -> None:
    assert row(aborted(1).to_json())[1:] == (
        None,
        "aborted",
        "member left",
        None,
        None,
        None,
        None,
        "2 -> -",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("width", "more", "head", "last"),
    [
        (70, [], "BEGAN (UTC)     GENERATION  OUTCOME  CAUSE", "member left: con…lling-1-0c2d3e4f"),
        (80, [], "JOIN (S)", "0.3"),
        (100, [], "JOIN (S)", "0.1"),
        (300, [], "LOST (PARTITION-S)", "0.8"),
        (80, ["--wide"], "BEGAN (UTC)", "0.8"),
    ],
)
def test_on_terminals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, more: list[str], head: str, last: str
) -> None:
    java = B._replace(member_id=MemberId("consumer-billing-1-0c2d3e4f-1111-2222-3333-0123456789ab"))
    entries = [entry(number, triggered_by=java).to_json() for number in (10, 9)]

    def console(err: bool = False, wide: bool = False) -> Console:
        found = rich_console.NO_WIDTH if wide else width
        return Console(width=found, force_terminal=True, color_system=None, stderr=err)

    monkeypatch.setattr(rich_console, "console", console)
    with gateways(tmp_path, response(entries)):
        done = runner().invoke(groups, ["history", "billing", *more, "--storage", str(tmp_path)])
    first, *rows = done.stdout.splitlines()
    assert (max(map(len, (first, *rows))) <= width) is (not more)
    rows = rows[:2]  # columns that are left out are below if their cells are all alike
    assert head in first
    assert [line.endswith(last) for line in rows] == [True, True]
    assert "-1-0c2d3e4f" in rows[0]
    assert ("in all rows: " in done.stdout) is (width < 300 and not more)


def history(directory: Path, response: tuple[int, bytes], *more: str) -> Result:
    with gateways(directory, response):
        return runner().invoke(groups, ["history", "billing", "--limit", "5", *more, "--storage", str(directory)])


def test_the_command(tmp_path: Path) -> None:
    entries = [entry(2, ending=Ending.RUNNING).to_json(), entry(1).to_json()]
    found = history(tmp_path, response(entries))
    assert found.exit_code == 0, found.output
    head, running, last = found.stdout.splitlines()
    assert head.startswith("BEGAN (UTC)")
    assert "running" in running
    assert last.startswith("2023-11-15 12:00:01.000")


def test_no_rebalance(tmp_path: Path) -> None:
    assert "group billing has had no rebalance" in history(tmp_path, response([])).stderr


def test_the_request(tmp_path: Path) -> None:
    shown = json.loads(history(tmp_path, response([]), "--json").stdout)
    assert shown["request"] == "/v1/groups/history?group=billing&limit=5"


@pytest.mark.parametrize("command", ["lag", "history"])
def test_no_further_request_for_a_group_that_does_not_exist(tmp_path: Path, command: str) -> None:
    with gateways(tmp_path, (404, b'{"error": "PATH"}')) as requests:
        done = runner().invoke(groups, [command, "nope", "--storage", str(tmp_path)])
    assert (done.exit_code, done.stderr) == (1, "Error: there is no group nope; see muster groups list\n")
    assert [path for path in requests if path.startswith("/v1/groups/")] == [requests[0]]
