"""Ray's internals are used in two folders only, whose modules docs/ray-internals.md lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT

ROOMS = ("actors/runtime/ray/", "gateway/cli/ray/")
FOLDERS = ("actors", "benchmarks", "deploy", "examples", "gateway", "muster", "placement", "pytest-muster", "spark")
_MODULE = re.compile(r"ray\.(?:\w+\.)*(?:_\w+|core|dashboard|experimental|includes)(?:\.|$)")
"""A module, or an attribute of one, that is private or that Ray's reference of its API does not have."""
_ATTRIBUTE = re.compile(r"_private|_actor_id|_ray_\w+|_internal_kv_\w+|_raylet")
"""An attribute of any object of Ray's."""
_TEXT = re.compile(r"RAY_[a-z]\w*|ray::\w*|--raylet\w*")
"""A setting of ``ray_config_def.h``, the title of a worker's process, an option of a raylet."""

_ANY = re.compile(rf"\bray\._|{_MODULE.pattern}|from ray\b|{_ATTRIBUTE.pattern}|{_TEXT.pattern}")
"""One of them may be in a file's text, or it has none."""


def internals(file: Path) -> Iterator[str]:
    """Yield each use of Ray's internals, with its line."""
    content = file.read_text()
    if not _ANY.search(content):
        return
    tree = ast.parse(content, str(file))
    for node in ast.walk(tree):
        for name in names(node):
            if _MODULE.match(name) or (isinstance(node, ast.Attribute) and _ATTRIBUTE.fullmatch(node.attr)):
                yield f"{node.lineno}: {name}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode(errors="replace")
            if _TEXT.fullmatch(text):
                yield f"{node.lineno}: {text}"


def names(node: ast.AST) -> list[str]:
    """Return the whole names that an import, an attribute or a string gives; none for other nodes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Attribute):
        return [ast.unparse(node)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_internals_of_ray_have_their_rooms() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 800
    found = [
        f"{name}:{use}"
        for file in files
        if not (name := str(file.relative_to(ROOT))).startswith(ROOMS)
        for use in internals(file)
    ]
    assert not found, "\n".join(found)


def test_the_page_lists_each_module_of_the_rooms() -> None:
    page = (ROOT / "docs/ray-internals.md").read_text()
    modules = [file for room in ROOMS for file in (ROOT / room).glob("*.py") if file.name != "__init__.py"]
    assert len(modules) > 15
    assert not [str(file.relative_to(ROOT)) for file in modules if f"`{file.relative_to(ROOT)}`" not in page]


@pytest.mark.parametrize(
    "text",
    [
        "import ray._private.worker",
        "from ray._raylet import GcsClient",
        "from ray.core.generated import gcs_pb2",
        "def f():\n    from ray.dashboard import utils",
        "from ray.autoscaler._private.local import node_provider",
        "from ray import _private",
        "mode = ray._private.worker.global_worker.mode",
        "from ray.experimental import internal_kv",
        "kv._internal_kv_put(b'', b'')",
        "actor._actor_id.hex()",
        "import_module('ray._raylet')",
        "os.environ['RAY_event_stats'] = '0'",
        "title.startswith(b'ray::')",
    ],
)
def test_a_use_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "it.py").write_text(text)
    assert list(internals(tmp_path / "it.py"))


@pytest.mark.parametrize(
    "text",
    [
        "import ray\nray.get_actor('controller').ping.remote()",
        "from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy",
        "from ray.exceptions import RayError",
        "os.environ['RAY_AUTH_MODE'] = 'token'",
        "import array._private",
        "'it begins with ray::Controller, which is no title'",
    ],
)
def test_the_public_api_is_no_use_of_internals(tmp_path: Path, text: str) -> None:
    (tmp_path / "it.py").write_text(text)
    assert not list(internals(tmp_path / "it.py"))
