"""Imports of tests, examples and benchmarks by modules of tests, directly or through others."""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath

import grimp

_PACKAGES = ("tests", "examples", "benchmarks")


def imported(path: PurePosixPath) -> set[PurePosixPath]:
    """Return the files that a module or a package imports, and its own. ``path``: from the top of the checkout."""
    graph, module = _graph(), ".".join(path.with_suffix("").parts)
    if module not in graph.modules:
        return set()
    upstream = graph.find_upstream_modules(module, as_package=True)
    return {_file(each) for each in {module, *graph.find_descendants(module), *upstream}}


def conftests(path: PurePosixPath) -> list[PurePosixPath]:
    """Return the files that pytest loads before the tests of that path, if it exists."""
    return [folder / "conftest.py" for folder in path.parents if folder.parts]


def _file(module: str) -> PurePosixPath:
    path = PurePosixPath(*module.split("."))
    return path / "__init__.py" if _graph().find_children(module) else path.with_suffix(".py")


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*_PACKAGES, cache_dir=None)
