"""The core is pure: time, chance and I/O are its callers' business."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import actors.group

IMPURE = {"ray", "asyncio", "socket", "threading", "time", "datetime", "random", "uuid", "kazoo", "pyspark", "os"}
ALLOWED_NAMES = {("uuid", "UUID")}
FILES = sorted(Path(actors.group.__path__[0]).rglob("*.py"))


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (((node.module or "").split(".")[0], alias.name) for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_impure_import(path: Path) -> None:
    """The class UUID is a value; what makes new ones is not imported."""
    assert not [found for found in _imports(path) if found[0] in IMPURE and found not in ALLOWED_NAMES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_only_placement_and_the_codec_are_below(path: Path) -> None:
    tree = ast.parse(path.read_text())
    ours = [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"actors", "gateway", "spark"}
    ]
    strangers = [module for module in ours if not (module or "").startswith("actors.group")]
    assert strangers == (["actors.wire"] if path.stem == "adapters" else [])
