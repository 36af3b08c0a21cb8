"""The core is pure: time, chance and I/O are its callers' task."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster.actors.group

TIME_AND_CHANCE = {"time", "datetime", "random", "secrets", "uuid"}
OUTSIDE = {
    "ray",
    "kazoo",
    "pyspark",
    "asyncio",
    "socket",
    "select",
    "ssl",
    "os",
    "pathlib",
    "shutil",
    "tempfile",
    "signal",
}
CONCURRENCY = {"threading", "_thread", "multiprocessing", "concurrent", "subprocess", "queue"}
BACK_DOORS = {"importlib", "builtins", "sys", "ctypes"}
IMPURE = TIME_AND_CHANCE | OUTSIDE | CONCURRENCY | BACK_DOORS
ALLOWED_NAMES = {("uuid", "UUID"), ("sys", "intern")}
FILES = sorted(Path(muster.actors.group.__path__[0]).rglob("*.py"))


def _imports(source: str) -> Iterator[tuple[str, str]]:
    """(top-level module, name) of every import, at any depth; ("", name) for a built-in that reaches outside."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (((node.module or "").split(".")[0], alias.name) for alias in node.names)
        elif isinstance(node, ast.Name) and node.id in {"open", "input", "__import__", "exec", "eval"}:
            yield "", node.id


def _impure(source: str) -> list[tuple[str, str]]:
    return [found for found in _imports(source) if found not in ALLOWED_NAMES and (found[0] in IMPURE or not found[0])]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_impure_import(path: Path) -> None:
    """The class UUID is a value; its generators are not imported. Interned strings are the same strings."""
    assert _impure(path.read_text()) == []


@pytest.mark.parametrize("module", sorted(IMPURE))
def test_an_impure_import_would_be_found(module: str) -> None:
    clean = FILES[0].read_text()
    for line in (
        f"import {module}",
        f"import {module}.anything as harmless",
        f"from {module} import anything",
        f"def late():\n    from {module}.deep import anything",
        f"if True:\n    import json, {module}",
    ):
        assert _impure(f"{clean}\n{line}\n"), line


@pytest.mark.parametrize(
    "line",
    [
        "from datetime import datetime\nNOW = datetime.now()",
        "from time import monotonic_ns",
        "from uuid import UUID, uuid4",
        "DATA = open('/etc/hosts').read()",
        "clock = __import__('time')",
    ],
)
def test_other_ways_out_would_be_found(line: str) -> None:
    assert _impure(line)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_placement_and_the_codec_are_below(path: Path) -> None:
    tree = ast.parse(path.read_text())
    ours = [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("muster.")
    ]
    below = ("muster.actors.group", "muster.placement")
    strangers = [module for module in ours if not (module or "").startswith(below)]
    codec = {
        "adapters": ["muster.actors.wire.kafka", "muster.actors.wire.kafka.into"],
        "consumer_protocol": ["muster.actors.wire.kafka.lengths", "muster.actors.wire.kafka.reader"],
    }
    assert strangers == codec.get(path.stem, [])
