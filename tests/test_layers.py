"""The layers of docs/architecture.md, and the purity of the cores, read from the imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAY_IMPORT = {
    "placement": set(),
    "actors": {"placement"},
    "gateway": {"actors", "placement"},
    "spark": {"actors", "placement"},
    "demo": {"actors", "gateway", "placement", "spark", "pytest_muster"},
}
IMPURE = {"ray", "asyncio", "socket", "threading", "time", "datetime", "random", "uuid", "kazoo", "pyspark"}
PURE = (
    *sorted((ROOT / "actors/config").rglob("*.py")),
    *sorted((ROOT / "actors/group").rglob("*.py")),
    *sorted((ROOT / "gateway/attribution").rglob("*.py")),
    *(ROOT / "actors/offsets/history" / name for name in ("journal.py", "journal_entry.py", "stillness.py")),
    ROOT / "placement/moves.py",
    *(ROOT / "placement/mapping" / name for name in ("comparison.py", "divergence.py", "repair.py")),
    *(
        ROOT / "actors/audit" / name
        for name in ("books.py", "commits.py", "outbox.py", "report.py", "series.py", "spans.py")
    ),
    *(ROOT / "actors/faults" / name for name in ("apis.py", "errors.py", "matching.py", "model.py")),
)


VALUES = {("uuid", "UUID"), ("datetime", "timedelta")}
"""Types of plain values in impure modules; they read no clock and draw nothing."""


def imported(file: Path) -> Iterator[tuple[str, int]]:
    """Top-level package of every import in the file, also inside functions, with its line; not of ``VALUES``."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: import by the whole name"
            module = node.module or ""
            if not {(module, alias.name) for alias in node.names} <= VALUES:
                yield module.split(".")[0], node.lineno


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    others = {*MAY_IMPORT, "tests", "pytest", "pytest_muster"} - MAY_IMPORT[package] - {package}
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in sorted((ROOT / package).rglob("*.py"))
        for name, line in imported(file)
        if name in others
    ]
    assert not wrong


def test_pytest_muster_needs_nothing_of_ours() -> None:
    """Nor of anybody else's: it is installed alone, with pytest. What only type checkers import does not count."""
    allowed = sys.stdlib_module_names | {"pytest", "pytest_muster", "typing_extensions"}
    files = sorted((ROOT / "pytest-muster/src").rglob("*.py"))
    assert files
    assert not [
        f"{file.name}:{line} imports {name}" for file in files for name, line in imported(file) if name not in allowed
    ]


@pytest.mark.parametrize("file", PURE, ids=lambda file: str(file.relative_to(ROOT)))
def test_cores_are_pure(file: Path) -> None:
    assert not [f"line {line} imports {name}" for name, line in imported(file) if name in IMPURE]
