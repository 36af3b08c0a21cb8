"""Tests wait for events: they do not sleep. Docstrings say it with a verb or a noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT

_SLEEPS = {
    "tests/cli/test_coordinator.py": "a gateway that takes its time",
    "tests/runtime/liveness/test_pings.py": "nothing of the process runs, as after SIGSTOP",
    "tests/conformance/quotas/test_quotas.py": "a rate is of time, and Kafka's clock cannot be set",
    "tests/nodes/test_two_copies.py": "a client that is refused waits before it tries again",
    "tests/reconciler/test_mapping_repair.py": "a round begins a second after the one before",
    "tests/scenarios/socket_world.py": "a scenario says how much time passes",
    "tests/gateway/console/test_watch.py": "a gateway that takes its time",
    "tests/data/test_read.py": "a time between the timestamps of records",
    "tests/object_storage/faulty.py": "a service that is far away",
}
"""Reasons why a test may let time pass."""
_NO_TESTS = (
    "tests/chaos/",
    "tests/simulation/",
    "tests/fuzz/__main__.py",
    "tests/fuzz/measuring.py",
    "tests/fuzz/storms.py",
)
"""Programs: loads in real time, and one whose clock is simulated."""
_FOLDERS = (
    "actors",
    "benchmarks",
    "deploy",
    "examples",
    "gateway",
    "placement",
    "pytest-muster",
    "spark",
    "tests",
)
_NO_BEGINNING = re.compile(r'^ *r?"""\s*(What|As|Of|Those|It is|The same)\b', re.MULTILINE)


def test_tests_wait_for_events() -> None:
    """A pause between two checks of a condition is no sleep, nor is a turn of the event loop."""
    sleeping = {
        name: lines
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if not (name := str(file.relative_to(ROOT))).startswith(_NO_TESTS) and (lines := list(sleeps(file)))
    }
    assert sleeping.keys() == _SLEEPS.keys(), sleeping


def sleeps(file: Path) -> Iterator[int]:
    """Lines with a sleep that is not in a ``while`` and not of 0 seconds."""
    tree = ast.parse(file.read_text(), str(file))
    in_loops = {node for loop in ast.walk(tree) if isinstance(loop, ast.While) for node in ast.walk(loop)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node in in_loops:
            continue
        if ast.unparse(node.func) in ("time.sleep", "asyncio.sleep", "sleep") and ast.unparse(node.args[0]) != "0":
            yield node.lineno


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("time.sleep(1)", [1]),
        ("async def f():\n    await asyncio.sleep(0.1)", [2]),
        ("await_all(asyncio.sleep(0))", []),
        ("while not done():\n    time.sleep(0.01)", []),
    ],
)
def test_a_sleep_is_found(tmp_path: Path, text: str, found: list[int]) -> None:
    (tmp_path / "it.py").write_text(text)
    assert list(sleeps(tmp_path / "it.py")) == found


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    """Hold modules, classes and attributes to it, too: ruff's D401 looks at functions only."""
    found = [
        f"{file.relative_to(ROOT)}: {beginning}"
        for folder in _FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for beginning in _NO_BEGINNING.findall(file.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""As usual."""', ["As"]),
        ('class A:\n    """What it is."""\n    b: int = 1\n    """Of A."""', ["What", "Of"]),
        ('def f() -> None:\n    x = 1\n    r"""The same as x."""', ["The same"]),
        ('"""Offsets of all."""\nprint("""It is no docstring.""")', []),
    ],
)
def test_a_beginning_is_found(text: str, found: list[str]) -> None:
    assert _NO_BEGINNING.findall(text) == found
