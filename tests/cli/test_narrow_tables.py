"""Tables that have columns to leave out, on terminals of several widths, and in a pipe."""

from __future__ import annotations

import pytest
from rich.console import Console

from muster.actors.runtime import rich_console
from muster.gateway.cli.output import print_table

COLUMNS = ("GROUP", "TYPE", "PROTOCOL TYPE", "LAG")
ROWS = [("billing", "classic", "consumer", 7), ("reports", None, None, None)]


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (36, []),
        (35, ["PROTOCOL TYPE"]),
        (21, ["PROTOCOL TYPE"]),
        (20, ["TYPE", "PROTOCOL TYPE"]),
        (8, ["TYPE", "PROTOCOL TYPE"]),
    ],
)
def test_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, left_out: list[str]
) -> None:
    def console() -> Console:
        return Console(width=width, force_terminal=True, color_system=None)

    monkeypatch.setattr(rich_console, "console", console)
    assert print_table(COLUMNS, ROWS, ("TYPE", "PROTOCOL TYPE")) == left_out
    shown = capsys.readouterr().out
    assert [name for name in COLUMNS if name not in shown] == left_out
    assert "billing" in shown


def test_a_pipe_has_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table(COLUMNS, ROWS, ("TYPE", "PROTOCOL TYPE")) == []
    assert capsys.readouterr().out.splitlines() == [
        "GROUP    TYPE     PROTOCOL TYPE  LAG",
        "billing  classic  consumer         7",
        "reports  -        -                -",
    ]
