"""Marks for whole folders: which make target runs their tests (see [tool.pytest.ini_options] in pyproject.toml)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest


def mark_folder(items: Iterable[pytest.Item], conftest: str, mark: str) -> None:
    """Add the mark to every test below the folder of that conftest, given by its ``__file__``."""
    folder = Path(conftest).parent
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(mark)
