"""The word list of CONTRIBUTING.md, held over names, docstrings, comments, messages and documentation."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_layers import ROOT

_HEADING = "## Words\n"


_NAMES = {
    kind: found
    for kind in vars(ast).values()
    if isinstance(kind, type)
    and issubclass(kind, ast.AST)
    and (found := tuple(f for f in ("id", "attr", "arg", "name", "asname", "module") if f in kind._fields))
}
"""The fields of syntax that are names."""


def word_list() -> str:
    """The section of CONTRIBUTING.md, with its heading."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    return _HEADING + page.partition(_HEADING)[2].partition("\n## ")[0]


@functools.cache
def rules() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What must not be in text, and what must not be in names: quoted and in code type in the second column."""
    second = "".join(row.split("|")[2] for row in re.findall(r"^\| [^|\n]+\|[^|\n]+\|$", word_list(), re.MULTILINE))
    text, names = re.findall(r'"([^"]+)"', second), re.findall(r"`([^`]+)`", second)
    assert len(text) > 10
    assert len(names) > 10
    phrases = (r"[\s-]+".join(re.split("[ -]", phrase)) for phrase in text)
    return re.compile(rf"\b(?:{'|'.join(phrases)})s?\b", re.IGNORECASE), re.compile("|".join(map(in_names, names)))


def in_names(word: str) -> str:
    """A pattern: lower case is whole words of any name, snake or camel; a capital means this spelling only."""
    if word.islower():
        camel = word.title().replace("_", "")
        return rf"(?:(?<![A-Za-z])(?i:{word})s?(?![a-z])|{camel}s?(?![a-z]))"
    return rf"(?<![A-Z])(?<![A-Z]_){word}" + (
        "" if word.endswith("_") else "(?![A-Z])" if word.isupper() else "s?(?![a-z])"
    )


def breaches(path: Path) -> list[str]:
    """Every word of a file that is not to be used, with its line where that is known."""
    text = path.read_text()
    if path.suffix == ".md":
        return in_text(text.replace(word_list(), ""))
    nodes = list(ast.walk(ast.parse(text)))
    return sorted({*comments(text), *strings(nodes), *names(nodes)})


def in_text(text: str) -> list[str]:
    """Words outside code type: ``nobody`` in back quotes may be somebody's name."""
    return [found[0] for found in rules()[0].finditer(re.sub(r"(`+)[^`\n]+\1", " code ", text))]


def comments(source: str) -> Iterator[str]:
    if not in_text(re.sub(r"\n\s*#+", "\n", source)):
        return  # which takes a fraction of the time that reading the tokens does
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    yield from in_text("".join(token.string.lstrip("#") for token in tokens if token.type == tokenize.COMMENT))


def strings(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from (f"line {node.lineno}: {word}" for word in in_text(node.value))


def names(nodes: list[ast.AST]) -> Iterator[str]:
    for name in {name for node in nodes for name in names_of(node)}:
        if is_refused(name):
            yield f"name {name}"


@functools.cache
def is_refused(name: str) -> bool:
    return rules()[1].search(name) is not None


def names_of(node: ast.AST) -> Iterator[str]:
    for field in _NAMES.get(type(node), ()):
        if isinstance(value := getattr(node, field), str):
            yield value


def all_breaches() -> dict[str, list[str]]:
    tops = ("actors", "gateway", "placement", "spark", "tests", "benchmarks", "examples", "pytest-muster")
    python = [path for top in tops for path in (ROOT / top).rglob("*.py")]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    found = {str(path.relative_to(ROOT)): breaches(path) for path in (*python, *pages) if path != Path(__file__)}
    return {name: words for name, words in sorted(found.items()) if words}


def test_words_are_those_of_the_list() -> None:
    assert not all_breaches()


@pytest.mark.parametrize(
    "source",
    [
        "culprit = 1",
        "class ACulprit: pass",
        "def f(last_culprits): pass",
        "_MOST_ROWS = 1",
        "import muster.culprit",
        "x.culprit()",
        '"""The client is\n    told."""',
        "# A stand-in\n",
        "# It goes\n# on\n",
        "f'{x} was told'",
    ],
)
def test_a_planted_word_is_found(tmp_path: Path, source: str) -> None:
    file = tmp_path / "planted.py"
    file.write_text(source)
    assert breaches(file)


@pytest.mark.parametrize("source", ["ALMOST_ROWS = 'told'", "# ``told``, a name\n", "taskset = 1", "namespace = 1"])
def test_other_words_are_not(tmp_path: Path, source: str) -> None:
    file = tmp_path / "clean.py"
    file.write_text(source)
    assert not breaches(file)
