"""A small module that only its neighbour imports is a part of that neighbour."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.house.test_layers import IMPURE, ROOT, imported, imports_between, modules

SMALL_LINES = 60
_OF_THE_REGISTRY = re.compile(r"muster\.gateway\.apis\.(\w+\.)*k\d\d_\w+")
"""A Kafka API each, which ``gateway/apis/__init__.py`` imports by walking the folder."""
_APART = {"muster.gateway.attribution.matching": "an algorithm with tests of its own; identity.py would have 525 lines"}
"""Reasons why a module stays by itself."""


def test_small_modules_are_merged_into_their_only_importer() -> None:
    assert to_merge(ROOT).keys() == _APART.keys(), to_merge(ROOT)


def to_merge(root: Path) -> dict[str, str]:
    """Modules that should be a part of their only importer, with that importer.

    A pure module may stay apart from an importer that is not. The ``__init__.py`` of a folder is no place for code.
    """
    files = modules(root)
    importers: dict[str, set[str]] = defaultdict(set)
    for name, others in imports_between(files).items():
        for other in others | (loaded_by_name(files[name]) & files.keys()) - {name}:
            importers[other].add(name)
    found = {}
    for name, file in files.items():
        if len(importers[name]) != 1 or _OF_THE_REGISTRY.fullmatch(name) or file.read_text().count("\n") >= SMALL_LINES:
            continue
        (importer,) = importers[name]
        target = files[importer]
        is_beside = target.parent == file.parent and "__init__.py" not in (file.name, target.name)
        if is_beside and (is_pure(target) or not is_pure(file)):
            found[name] = importer
    return found


def loaded_by_name(file: Path) -> set[str]:
    """Strings of a module that are whole names, for ``import_module``."""
    nodes = ast.walk(ast.parse(file.read_text(), str(file)))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def is_pure(file: Path) -> bool:
    return not any(name in IMPURE for name, _ in imported(file))


SMALL = "actors/log/small.py"
USES_IT = "from muster.actors.log.small import f\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({SMALL: "", "actors/log/actor.py": USES_IT}, ["muster.actors.log.small"]),
        ({SMALL: "", "actors/log/actor.py": "import muster.actors.log.small\n"}, ["muster.actors.log.small"]),
        ({SMALL: "import time\n", "actors/log/actor.py": USES_IT}, ["muster.actors.log.small"]),
        ({SMALL: "import time\n", "actors/log/actor.py": "import ray\n" + USES_IT}, ["muster.actors.log.small"]),
        ({SMALL: "", "actors/log/actor.py": "import ray\n" + USES_IT}, []),
        ({SMALL: "\n" * SMALL_LINES, "actors/log/actor.py": USES_IT}, []),
        ({SMALL: ""}, []),
        ({SMALL: "", "actors/log/actor.py": USES_IT, "actors/log/other.py": USES_IT}, []),
        ({SMALL: "", "actors/log/actor.py": USES_IT, "gateway/forks.py": '_IT = "muster.actors.log.small"\n'}, []),
        ({SMALL: "", "actors/serving/actor.py": USES_IT}, []),
        ({SMALL: "", "actors/log/__init__.py": USES_IT}, []),
        (
            {
                "gateway/apis/data/k00_produce.py": "",
                "gateway/apis/data/k01_fetch.py": "import muster.gateway.apis.data.k00_produce\n",
            },
            [],
        ),
    ],
)
def test_a_planted_module_is_found(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(to_merge(tmp_path)) == found
