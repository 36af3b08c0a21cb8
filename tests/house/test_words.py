"""The word list of CONTRIBUTING.md, held over the names in the code."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT

_NAMES = {
    kind: found
    for kind in vars(ast).values()
    if isinstance(kind, type)
    and issubclass(kind, ast.AST)
    and (found := tuple(f for f in ("id", "attr", "arg", "name", "asname", "module") if f in kind._fields))
}
"""The fields of syntax that are names."""


@functools.cache
def rules() -> re.Pattern[str]:
    """Return the words that must not be in names: in code type in the second column of the table."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Words\n")[2].partition("\n## ")[0]
    second = "".join(row.split("|")[2] for row in re.findall(r"^\| [^|\n]+\|[^|\n]+\|$", section, re.MULTILINE))
    words = re.findall(r"`([^`]+)`", second)
    assert len(words) > 10
    return re.compile("|".join(map(in_names, words)))


def in_names(word: str) -> str:
    """Return a pattern: lower case is whole words of any name, snake or camel; a capital means this spelling only."""
    if word.islower():
        camel = word.title().replace("_", "")
        return rf"(?:(?<![A-Za-z])(?i:{word})s?(?![a-z])|{camel}s?(?![a-z]))"
    return rf"(?<![A-Z])(?<![A-Z]_){word}" + (
        "" if word.endswith("_") else "(?![A-Z])" if word.isupper() else "s?(?![a-z])"
    )


def breaches(path: Path) -> list[str]:
    """Return the names in a file that have a word of the list."""
    return sorted(
        {name for node in ast.walk(ast.parse(path.read_text())) for name in names_of(node) if is_refused(name)}
    )


@functools.cache
def is_refused(name: str) -> bool:
    return rules().search(name) is not None


def names_of(node: ast.AST) -> Iterator[str]:
    for field in _NAMES.get(type(node), ()):
        if isinstance(value := getattr(node, field), str):
            yield value


def test_names_have_the_words_of_the_list() -> None:
    tops = ("actors", "gateway", "placement", "spark", "tests", "benchmarks", "examples", "pytest-muster")
    files = sorted(path for top in tops for path in (ROOT / top).rglob("*.py"))
    assert not {str(path.relative_to(ROOT)): found for path in files if (found := breaches(path))}


@pytest.mark.parametrize(
    "source",
    [
        "culprit = 1",
        "class ACulprit: pass",
        "def f(last_culprits): pass",
        "_MOST_ROWS = 1",
        "import muster.culprit",
        "x.culprit()",
    ],
)
def test_a_planted_word_is_found(tmp_path: Path, source: str) -> None:
    file = tmp_path / "planted.py"
    file.write_text(source)
    assert breaches(file)


@pytest.mark.parametrize(
    "source", ["ALMOST_ROWS = 1", "taskset = 1", "namespace = 1", '"""The client is told."""', "# The culprit\n"]
)
def test_other_words_are_not(tmp_path: Path, source: str) -> None:
    file = tmp_path / "clean.py"
    file.write_text(source)
    assert not breaches(file)
