"""The names that users may rely on: few, listed in ``muster.PUBLIC``, each with a docstring."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

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


_HEAVY = ("confluent_kafka", "numpy", "pandas", "pyarrow", "ray")
_SCRIPT = f"""
import sys
before = set(sys.modules)
import muster
print(sorted(set(sys.modules) - before))
for name in muster.__all__:
    getattr(muster, name)
print([name for name in {_HEAVY} if name in sys.modules])
print(sorted(set(muster.__all__) - set(dir(muster))))
"""


def test_the_package_is_light() -> None:
    """Every process of Muster imports it; and a program that starts or finds a Muster need not use Ray."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["['muster']", "[]", "[]"]


def test_a_name_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose own import fails says so, and is not taken for one that does not exist."""
    assert not hasattr(muster, "no_such_name")
    monkeypatch.setattr(muster, "_MODULES", ("missing", "broken"))
    monkeypatch.setattr(muster, "__path__", [str(tmp_path)])
    (tmp_path / "broken.py").write_text("import no_such_package")
    with pytest.raises(AttributeError, match=r"there is no module 'muster\.missing'"):
        _ = muster.missing
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        _ = muster.broken
