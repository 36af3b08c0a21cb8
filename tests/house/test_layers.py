"""Rules on imports beyond import-linter's (pyproject.toml has its contracts): pure cores, import cycles. And sizes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

IMPURE = {"ray", "asyncio", "socket", "threading", "time", "datetime", "random", "uuid", "kazoo", "pyspark"}
PURE = (
    *sorted((ROOT / "actors/config").rglob("*.py")),
    *sorted((ROOT / "actors/group").rglob("*.py")),
    *sorted((ROOT / "actors/transactions").rglob("*.py")),
    *sorted((ROOT / "gateway/administration").rglob("*.py")),
    *sorted((ROOT / "gateway/attribution").rglob("*.py")),
    *sorted((ROOT / "gateway/console/model").rglob("*.py")),
    *sorted((ROOT / "gateway/quotas").rglob("*.py")),
    *sorted((ROOT / "gateway/fetch_sessions").rglob("*.py")),
    *sorted((ROOT / "gateway/telemetry").rglob("*.py")),
    *(ROOT / "gateway/client/scaling" / name for name in ("rates.py", "sizing.py")),
    ROOT / "actors/tables/rebalance_entry.py",
    *(
        ROOT / "actors/offsets/history" / name
        for name in ("journal.py", "consumer_journal.py", "consumption_pauses.py")
    ),
    ROOT / "placement/moves.py",
    *(ROOT / "placement/security" / name for name in ("acls.py", "acl_nodes.py")),
    *sorted((ROOT / "gateway/security/authorization").rglob("*.py")),
    *(ROOT / "placement/mapping" / name for name in ("comparison.py", "divergence.py", "repair.py")),
    *(
        ROOT / "actors/audit" / name
        for name in ("books.py", "commits.py", "outbox.py", "report.py", "series.py", "spans.py")
    ),
    *(ROOT / "actors/faults" / name for name in ("apis.py", "errors.py", "matching.py", "model.py")),
)


MAX_LINES = 600
VALUES = {("uuid", "UUID"), ("datetime", "timedelta")}
"""Types of plain values in impure modules; they read no clock and draw nothing."""


def package_of(module: str) -> str:
    """``actors`` for ``muster.actors.log``; for other modules than Muster's, the top-level package."""
    first, *others = module.split(".")
    return others[0] if first == "muster" and others else first


def imported(file: Path) -> Iterator[tuple[str, int]]:
    """Top-level package of every import in the file, also inside functions, with its line; not of ``VALUES``."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            yield from ((package_of(alias.name), node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: import by the whole name"
            module = node.module or ""
            if not {(module, alias.name) for alias in node.names} <= VALUES:
                yield package_of(module), node.lineno


def test_muster_has_one_import_name() -> None:
    """``import actors`` works in a checkout too, and would load a second copy of every module."""
    folders = {folder.name for folder in (ROOT / "muster").iterdir() if folder.is_symlink()}
    assert folders == {"actors", "gateway", "placement", "spark"}
    files = (file for file in ROOT.rglob("*.py") if not file.relative_to(ROOT).parts[0].startswith("."))
    wrong = [
        f"{file.relative_to(ROOT)} imports {module}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text(), str(file)))
        for module in modules_of(node)
        if module.split(".")[0] in folders
    ]
    assert not wrong


def modules_of(node: ast.AST) -> list[str]:
    """Return the modules that an import statement names; none for other nodes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_pytest_muster_needs_nothing_of_ours() -> None:
    """Nor of third parties: it is installed alone, with pytest. Imports for type checkers only do not count."""
    allowed = sys.stdlib_module_names | {"pytest", "pytest_muster", "typing_extensions"}
    files = sorted((ROOT / "pytest-muster/src").rglob("*.py"))
    assert files
    assert not [
        f"{file.name}:{line} imports {name}" for file in files for name, line in imported(file) if name not in allowed
    ]


def test_aids_of_tests_are_in_tests() -> None:
    """A test may be of a benchmark; what helps tests is theirs, and benchmarks may use it."""
    aids = [file for file in (ROOT / "tests").rglob("*.py") if not file.name.startswith("test_")]
    assert not [
        f"{file.relative_to(ROOT)}:{line}" for file in aids for name, line in imported(file) if name == "benchmarks"
    ]


@pytest.mark.parametrize("file", PURE, ids=lambda file: str(file.relative_to(ROOT)))
def test_cores_are_pure(file: Path) -> None:
    assert not [f"line {line} imports {name}" for name, line in imported(file) if name in IMPURE]


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of the product, by its full name."""
    files = (file for package in ("actors", "gateway", "placement", "spark") for file in (root / package).rglob("*.py"))
    names = {file: ".".join(("muster", *file.relative_to(root).with_suffix("").parts)) for file in files}
    return {name.removesuffix(".__init__"): file for file, name in names.items()}


def imports_between(files: dict[str, Path]) -> dict[str, set[str]]:
    """Which modules each one imports, also inside functions and for type checkers."""
    found: dict[str, set[str]] = {}
    for name, file in files.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text(), str(file))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                wholes = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= wholes if wholes <= files.keys() else {node.module or "", *wholes}
        found[name] = (named & files.keys()) - {name}
    return found


def test_there_is_no_import_cycle() -> None:
    """Repeatedly remove modules that import none of the remaining ones, until there are none: a cycle remains."""
    left = imports_between(modules())
    assert len(left) > 300
    while free := {name for name, others in left.items() if not others & left.keys()}:
        for name in free:
            del left[name]
    reached = {name for name in left if any(name in others for others in left.values())}
    while reached != left.keys():
        left = {name: left[name] & reached for name in reached}
        reached = {name for name in left if any(name in others for others in left.values())}
    assert not left


def test_files_can_be_read_in_one_sitting() -> None:
    others = [file for package in ("benchmarks", "examples", "tests") for file in (ROOT / package).rglob("*.py")]
    assert not [str(file) for file in (*modules().values(), *others) if file.read_text().count("\n") > MAX_LINES]
