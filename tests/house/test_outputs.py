"""Outputs of the commands of README and docs/ in a checkout are ignored by git: results, and secrets above all."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_docs import _BLOCK, PAGES, ROOT, spans

_WRITES = re.compile(
    r"(?:^|\s)(?:--(?:out|output|storage|json|detach|export|ready-file)[ =]|add \S+ --file |-out |-keyout |>\s*)"
    r"([\w./-]+)(?=\s|$)"
)
_PLACEHOLDER = re.compile(r"[A-Z-]+|\d[\d.]*")
BY_DEFAULT = ("muster-data/", "demo-data/", "demo-report.html")


def command_lines(page: Path) -> Iterator[str]:
    """Lines of shell, in sentences and in blocks, that run in the checkout."""
    yield from (span for span in spans(page) if re.match(r"(\.venv/bin/)?(muster|python|make) ", span))
    for block in _BLOCK.findall(page.read_text()):
        if re.match(r"```(console|sh|bash)?\n", block):
            yield from re.split(r"(?m)^(?:\$ )?cd ", block.replace("\\\n", " "))[0].splitlines()


def outputs(page: Path) -> set[str]:
    """Relative paths; a directory's ends with ``/``."""
    found = set()
    for line in command_lines(page):
        for match in _WRITES.finditer(line.partition(" # ")[0]):
            name = match[1].removeprefix("./")
            if not name.startswith(("/", "-")) and not _PLACEHOLDER.fullmatch(name):
                found.add(f"{name}/" if "--storage" in match[0] else name)
    return found


def is_left_alone(name: str) -> bool:
    """Ignored, or a file of the project."""
    return any(
        subprocess.run(["git", *command, name], cwd=ROOT, capture_output=True).returncode == 0
        for command in (["check-ignore", "--quiet"], ["ls-files", "--error-unmatch"])
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_outputs_of_documented_commands_are_ignored(page: Path) -> None:
    assert [name for name in sorted(outputs(page)) if not is_left_alone(name)] == []


def test_outputs_are_found() -> None:
    """In a sentence, by an option, by a redirection, and a directory."""
    found = {name for page in PAGES for name in outputs(page)}
    assert {"report.html", "may.json", "auth_token", "key.pem", "data/", "muster.log"} <= found


@pytest.mark.parametrize("name", BY_DEFAULT)
def test_what_commands_write_by_default_is_ignored(name: str) -> None:
    assert is_left_alone(name)
