"""``muster spark`` where RayDP cannot be had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.errors import CliError
from gateway.cli.main import cli


@pytest.mark.parametrize("command", [("spark", "lag"), ("report", "--out", "report.html")], ids=" ".join)
def test_it_says_what_goes_without(command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "raydp", None)
    done = CliRunner().invoke(cli, [*command, "--storage", str(tmp_path)], standalone_mode=False)
    assert isinstance(done.exception, CliError)
    assert "RayDP is not installed here (it needs Python 3.11)" in done.exception.message
    assert "--local" in done.exception.message
