"""Tables on narrow terminals, with ``--wide``, and in a pipe."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from muster.actors.runtime.narrow import Column, Kind
from muster.gateway.cli import main, mapping
from muster.gateway.cli.groups import waiting
from muster.gateway.cli.output import print_fields, print_table, print_text, with_wide
from muster.gateway.cli.security import acls, audit_log, user
from muster.gateway.cli.storage import log_replay
from tests.narrow_terminal import terminal

GROUP, TOPIC = "payments-settlement-reconciliation-service-production", "com.acme.logistics.shipment-status.events"
POD = "payments-settlement-7d9f8b6c5d-x2k0q"
MEMBER = f"{POD}-52e2dcdf-1b22-4a98-ab02-2505a4d5bc1d"
COLUMNS = (
    Column("GROUP", Kind.NAME),
    Column("TYPE", optional=True),
    Column("PROTOCOL TYPE", optional=True),
    "LAG",
)
ROWS = [("billing", "classic", "consumer", 7), ("reports", None, None, None)]
PATH = f"/client_group_id/10.120.41.207/{POD}/{GROUP}:{MEMBER}"
REAL = {
    "user list": (user._COLUMNS, [(f"{POD}-{POD}@logistics.example.com", "SCRAM-SHA-512", 4096)]),
    "mapping list": (
        mapping._NODES,
        [("10.120.41.207", POD, GROUP, MEMBER, "member", f"User:{POD}", 17, f"{TOPIC}-0,{TOPIC}-1", "offsets-31")],
    ),
    "acls list": (acls._COLUMNS, [("Group", GROUP, "Prefixed", f"User:{POD}", "Allow", "DescribeConfigs", "*")]),
    "groups waiting": (
        waiting._COLUMNS,
        [(GROUP, "PreparingRebalance", "12.0", "45.5", MEMBER, POD, "2001:db8:85a3::8a2e:370:7334", POD)],
    ),
    "mapping check": (
        mapping._DIFFERENCES,
        [("missing", "member", "10.120.41.207", POD, GROUP, MEMBER, PATH)],
    ),
    "log replay, groups": (log_replay._GROUPS, [(GROUP, "Stable", "consumer", "range", 17, MEMBER, 12, 96)]),
    "log replay, members": (
        log_replay._MEMBERS,
        [(GROUP, MEMBER, POD, POD, "10.120.41.207", 45_000, f"{TOPIC}-0, {TOPIC}-1")],
    ),
    "log replay, offsets": (log_replay._OFFSETS, [(GROUP, TOPIC, 11, 1_234_567_890, 17, "x" * 200)]),
}


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (36, []),
        (35, ["PROTOCOL TYPE"]),
        (21, ["PROTOCOL TYPE"]),
        (20, ["TYPE", "PROTOCOL TYPE"]),
    ],
)
def test_what_is_left_out(monkeypatch: pytest.MonkeyPatch, width: int, left_out: list[str]) -> None:
    with terminal(width, monkeypatch) as screen:
        assert print_table(COLUMNS, ROWS, "2 groups") == left_out
    titles = [column if isinstance(column, str) else column.title for column in COLUMNS]
    assert re.split(" {2,}", screen.lines[0]) == [title for title in titles if title not in left_out]
    assert screen.lines[3] == "2 groups"
    said = f"--wide shows {' and '.join(left_out)}" if left_out else ""
    assert " ".join(map(str.strip, screen.lines[4:])) == said


@pytest.mark.parametrize("name", REAL)
def test_a_wide_row_on_80_columns(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    columns, rows = REAL[name]
    with terminal(80, monkeypatch) as screen:
        print_table(columns, rows)  # type: ignore[arg-type]
    screen.check(80)
    assert screen.lines[2].startswith("--wide shows ")


@pytest.mark.parametrize("command", ["doctor --set log.retention.bytes=no --storage", "storage check"])
def test_a_table_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str) -> None:
    with terminal(80, monkeypatch) as screen:
        main._run([*command.split(), str(tmp_path)])
    short = [line for line in screen.lines if not line.startswith("muster: ")]
    assert len(short) > 5
    screen.check(80)
    if command.startswith("doctor"):
        assert any(line.startswith("failed: configuration: log.retention.bytes") for line in screen.lines)


def test_wide_is_one_table_with_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @with_wide
    def command() -> None:
        print_table((Column("MEMBER", Kind.ID), Column("N", optional=True)), [(MEMBER, 1), ("m", 2)], "2 members")

    for arguments, expected in (
        (["--wide"], [f"{'MEMBER':{len(MEMBER)}}  N", f"{MEMBER}  1", f"{'m':{len(MEMBER)}}  2", "2 members"]),
        ([], [f"{'MEMBER':30}", f"{POD[:15]}…-x2k0q-52e2dcd", "m", "2 members", "--wide shows N and whole names"]),
    ):
        with terminal(30, monkeypatch) as screen:
            command.main(arguments, standalone_mode=False)
        assert [line.rstrip() for line in screen.lines] == [line.rstrip() for line in expected]


def test_a_pipe_has_all_columns_and_nothing_more(capfd: pytest.CaptureFixture[str]) -> None:
    assert print_table(COLUMNS, ROWS, "2 groups") == []
    print_text("a text of many words " * 9)
    out, err = capfd.readouterr()
    assert out.splitlines() == [
        "GROUP    TYPE     PROTOCOL TYPE  LAG",
        "billing  classic  consumer         7",
        "reports  -        -                -",
        ("a text of many words " * 9).rstrip(),
    ]
    assert err == ""


def test_a_long_text_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(20, monkeypatch) as screen:
        print_text("words that are\x1b long, and more of them")
    assert screen.lines == ["words that are\\x1b", "  long, and more of", "  them"]


def test_fields_are_not_broken_from_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = ("group readers", "state Empty", "coordinator 127.0.0.1:9093", "members 0")
    for width, expected in ((80, ["  ".join(fields)]), (50, ["  ".join(fields[:2]), f"  {'  '.join(fields[2:])}"])):
        with terminal(width, monkeypatch) as screen:
            print_fields(*fields)
        assert screen.lines == expected


def test_an_empty_table_is_its_total(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with terminal(80, monkeypatch) as screen:
        print_table(COLUMNS, [], "0 groups")
    assert screen.lines == ["0 groups"]
    print_table(COLUMNS, [], "0 groups")
    assert capfd.readouterr().out == "GROUP  TYPE  PROTOCOL TYPE  LAG\n"


def test_what_is_alike_in_all_rows_is_said_below(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (Column("GROUP", Kind.NAME), Column("HOST", optional=1), Column("MEMBERS", optional=2))
    with terminal(18, monkeypatch) as screen:
        assert print_table(columns, [("billing", "127.0.0.1", 1), ("reports", "127.0.0.1", 2)]) == []
    assert [line.split() for line in screen.lines[:3]] == [["GROUP", "MEMBERS"], ["billing", "1"], ["reports", "2"]]
    assert " ".join(map(str.strip, screen.lines[3:])) == "in all rows: HOST 127.0.0.1"


def change(principal: str, api: str, resource: str, error: str) -> dict[str, Any]:
    at = datetime(2026, 11, 29, 11, 46, 43, tzinfo=UTC)
    same = {"gateway": 1, "host": "127.0.0.1", "client_id": "muster-cli", "times": 1, "detail": ""}
    return {"ts": at, **same, "principal": principal, "api": api, "resource": resource, "error": error} | {
        "resource_type": "GROUP"
    }


@pytest.mark.parametrize("other", ["User:ANONYMOUS", "User:ann"])
def test_who_did_what_on_80_columns(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """Names are shortened before APIs, errors and principals; a principal that all rows have is below."""
    rows = [
        change("User:ANONYMOUS", "CreateTopics", TOPIC, "NONE"),
        change(other, "POST /v1/faults", GROUP, "GROUP_ID_NOT_FOUND"),
    ]
    with terminal(80, monkeypatch) as screen:
        print_table(audit_log._COLUMNS, [audit_log.cells(row, narrow=True) for row in rows])
    screen.check(80)
    assert screen.lines[1].startswith("11-29 11:46:43")
    text = "\n".join(screen.lines)
    assert all(word in text for word in ("CreateTopics", "POST /v1/faults", "GROUP_ID_NOT_FOUND", "…"))
    assert ("PRINCIPAL ANONYMOUS" in text) is (other == "User:ANONYMOUS")
    assert audit_log.cells(rows[0])[0] == "2026-11-29 11:46:43"


def test_help_has_the_option() -> None:
    assert "--wide" in CliRunner().invoke(acls.list_, ["--help"]).output


def test_a_name_of_digits_is_no_number(capfd: pytest.CaptureFixture[str]) -> None:
    print_table((Column("GROUP", Kind.NAME), "LAG"), [("90100023", 7), ("12", 1000)])
    assert capfd.readouterr().out == "GROUP      LAG\n90100023     7\n12        1000\n"
