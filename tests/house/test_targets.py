"""Each test is in one ring, and each ring collects its tests."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

from tests.house.test_layers import ROOT
from tests.rings.ring import FIRST, load, marked

_SEEDS = ROOT / "tests/seeds.py"
"""Marks tests of the modules that import it."""
_MARK = re.compile(r"pytest\.mark\.ring\(name=\"([\w-]+)\"\)|mark_folder\(items, __file__, \"([\w-]+)\"\)")


def collected(command: str) -> list[Path]:
    """Return the folders that a ring of pytest collects: all tests, or those that its command names."""
    named = [ROOT / word for word in shlex.split(command)[1:] if word.startswith("tests")]
    return named or [ROOT / "tests"]


def marks() -> dict[str, list[Path]]:
    """By ring, the modules and folders that are marked for it."""
    found: dict[str, list[Path]] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        if re.search(r"^from tests\.seeds import", text, re.MULTILINE):
            found.setdefault("seeds", []).append(path)
        for module, folder in _MARK.findall(text) if path != _SEEDS else ():
            found.setdefault(module or folder, []).append(path.parent if folder else path)
    return found


def test_every_mark_names_a_ring_that_collects_it() -> None:
    rings = load()
    assert len(marks()) > 10
    for name, paths in marks().items():
        folders = collected(rings[name].command)
        assert [path for path in paths if not any(path.is_relative_to(folder) for folder in folders)] == [], name


def test_every_ring_of_pytest_has_tests() -> None:
    marked = marks().keys() | {FIRST}
    assert {name for name, ring in load().items() if ring.command.startswith("pytest") and name not in marked} == set()


def test_what_rings_cover_exists() -> None:
    missing = {path for ring in load().values() for path in ring.paths if not (ROOT / path).exists()}
    missing |= {path for ring in load().values() for path in collected(ring.command) if not path.exists()}
    assert missing == set()


def test_make_test_is_distributed_as_the_first_ring() -> None:
    recipe = re.search(r"^test: setup\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    ring = load()[FIRST].arguments(0)
    assert shlex.split(recipe[1])[1:] == ["not ring" if word == marked(FIRST) else word for word in ring[1:]]


def test_functions_that_test_are_in_files_that_are_collected() -> None:
    """pytest collects ``test_*.py`` below ``tests``. Tests there run the examples and pytest-muster."""
    run_by_others = (ROOT / "examples", ROOT / "pytest-muster")
    files = [
        path for path in ROOT.rglob("*.py") if not path.relative_to(ROOT).parts[0].startswith((".", "muster", "dist"))
    ]
    wrong = [
        str(path.relative_to(ROOT))
        for path in files
        if not any(path.is_relative_to(folder) for folder in run_by_others)
        and has_tests(path)
        and not (path.is_relative_to(ROOT / "tests") and path.name.startswith("test_"))
    ]
    assert not wrong


def has_tests(path: Path) -> bool:
    functions = (
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return any(function.name.startswith("test_") for function in functions)
