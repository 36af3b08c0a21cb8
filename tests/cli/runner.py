"""Commands run within the tests' own process."""

from __future__ import annotations

import inspect
from typing import Any

from click.testing import CliRunner


def runner() -> CliRunner:
    """With separate stderr and stdout, as since click 8.2; before, an option was necessary."""
    options: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
    return CliRunner(**options)
