"""The names that users may rely on: few, listed in ``muster.PUBLIC``, each with a docstring."""

from __future__ import annotations

import importlib
import re

import pytest

import muster
from tests.house.test_layers import ROOT


@pytest.mark.parametrize("module", muster.PUBLIC)
def test_public_modules_and_their_names_are_documented(module: str) -> None:
    public = importlib.import_module(module)
    assert public.__doc__
    assert public.__all__ == sorted(public.__all__, key=lambda name: (not name.isupper(), name)), "constants first"
    for name in public.__all__:
        value = getattr(public, name)
        assert not callable(value) or value.__doc__, f"{module}.{name}"
    assert f":mod:`{module}`" in (muster.__doc__ or "")


def test_what_users_read_imports_public_modules_only() -> None:
    """Pages for developers may name any module."""
    for_developers = {
        "architecture.md",
        "group-coordinator.md",
        "attribution.md",
        "benchmarks.md",
        "chaos.md",
        "decisions",
    }
    pages = [page for page in (ROOT / "docs").rglob("*.md") if not for_developers & {page.name, page.parent.name}]
    named = {
        (page.name, "".join(module))
        for page in (*pages, ROOT / "README.md")
        for module in re.findall(r"from (muster[\w.]*) import|`(muster(?:\.\w+)+)\.\w+\(", page.read_text())
    }
    assert {module for _, module in named} <= set(muster.PUBLIC)
    assert named
