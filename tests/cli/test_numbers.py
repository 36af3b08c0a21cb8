"""Numbers that options refuse."""

from __future__ import annotations

import pytest

from muster.gateway.cli import main


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("groups lag --watch", "nan"),
        ("drain a-node --timeout", "nan"),
        ("drain a-node --timeout", "inf"),
        ("drain a-node --timeout", "-1"),
        ("down --timeout", "nan"),
    ],
)
def test_what_is_no_time_to_wait(capfd: pytest.CaptureFixture[str], command: str, number: str) -> None:
    assert main._run(f"{command}={number}".split()) == 2
    assert f"Invalid value for '--{command.rpartition('--')[2]}': " in capfd.readouterr().err
