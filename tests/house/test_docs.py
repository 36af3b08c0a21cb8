"""Everything that README and docs/ name exists: commands and their options, properties, metrics, files, links."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from muster.actors.config import MusterConfig, describe_broker, describe_topic
from muster.gateway.cli.main import cli
from tests.rings.ring import load

ROOT = Path(__file__).resolve().parents[2]
CHANGES = [ROOT / "CHANGELOG.md", ROOT / "docs" / "changes-before-0.1.0.md"]
"""Pages about the past: only their links have to lead somewhere."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {*CHANGES})]
_CODE = ("actors", "benchmarks", "examples", "gateway", "placement", "pytest-muster", "spark", "tests")
_CONFIG = MusterConfig.from_properties({})
PROPERTIES = {row.name for row in (*describe_broker(_CONFIG), *describe_topic(_CONFIG, {}))}
_SPAN = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NAMED_PAGE = re.compile(r"docs/[\w./-]+\.md(?:#[\w-]+)?")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def title(page: Path) -> str:
    """Return the page's path, which names its tests."""
    return str(page.relative_to(ROOT))


def spans(page: Path) -> list[str]:
    """Code in sentences and tables."""
    return _SPAN.findall(_BLOCK.sub("", page.read_text()))


def command_lines(page: Path) -> Iterator[str]:
    """``muster ...``, in sentences and in blocks."""
    yield from (text for text in spans(page) if text.startswith("muster "))
    for block in _BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"\s*(?:\$ )?(?:\.venv/bin/)?(muster [^#|>&]*)", line)
            if found and not found[1].startswith("muster ready"):
                yield found[1].strip()


def unknown_in(line: str) -> str | None:
    """Return the parts of the command line that ``muster`` does not have: a command, or an option of one."""
    words = shlex.split(line.replace("...", ""))[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return words[0] if re.fullmatch(r"[a-z-]+", words[0]) else None
        command, words = found, words[1:]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}
    known |= {option for each in cli.params for option in each.opts}
    return next((word for word in words if word.startswith("--") and word.partition("=")[0] not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_commands_exist(page: Path) -> None:
    wrong = [f"{line}: {unknown}" for line in command_lines(page) if (unknown := unknown_in(line))]
    assert not wrong


@pytest.mark.parametrize("page", [*PAGES, *CHANGES], ids=title)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(_BLOCK.sub("", page.read_text())) if "://" not in link]
    assert not [link for link in links if not link.startswith("mailto:") and not leads_somewhere(page, link)]


def leads_somewhere(page: Path, link: str) -> bool:
    """Return whether the file exists, and the heading in it if the link names one."""
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and not (anchor and target.suffix == ".md" and anchor not in anchors(target))


def test_pages_that_other_files_name_exist() -> None:
    """Code, configuration and deployment files name a page by its path in the repository."""
    folders = ("actors", "benchmarks", "deploy", "examples", "gateway", "muster", "placement", "pytest-muster", "spark")
    files = [*ROOT.glob("*.*ml"), *(file for folder in folders for file in (ROOT / folder).rglob("*.*"))]
    wrong = [
        (file.name, link)
        for file in files
        if file.suffix in {".py", ".yaml", ".toml"}
        for link in _NAMED_PAGE.findall(file.read_text())
        if not leads_somewhere(ROOT / "README.md", link)
    ]
    assert not wrong


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub derives from headings."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_files_exist(page: Path) -> None:
    """Paths into this repository."""
    pattern = r"(?<![\w/.-])((?:actors|benchmarks|docs|examples|gateway|muster|placement|spark|tests)/[\w./-]+\.\w+)"
    wrong = [path for text in spans(page) for path in re.findall(pattern, text) if not (ROOT / path).exists()]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_names_in_the_code_exist(page: Path) -> None:
    """``Class.attribute`` of a class of ours, and ``module.py``."""
    code = classes()
    wrong = [
        span
        for span in spans(page)
        if (found := re.fullmatch(r"([A-Z]\w+)\.([a-z_]\w+)(?:\(\))?", span))
        and found[1] in code
        and not re.search(rf"\b{found[2]}\b", code[found[1]])
    ]
    modules = {file.name for folder in _CODE for file in (ROOT / folder).rglob("*.py")}
    wrong += [span for span in spans(page) if re.fullmatch(r"\w+\.py", span) and span not in modules]
    assert not wrong


@functools.cache
def classes() -> dict[str, str]:
    """Return the text of each class of the product; of all that have the name."""
    texts: dict[str, str] = {}
    for folder in _CODE:
        for file in (ROOT / folder).rglob("*.py"):
            for name, body in re.findall(r"^class (\w+)(.*?)(?=^\S|\Z)", file.read_text(), re.MULTILINE | re.DOTALL):
                texts[name] = texts.get(name, "") + body
    return texts


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_make_has_the_targets(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets |= {f"ring-{name}" for name in (*load(), "NAME")}
    assert set(re.findall(r"`make ([a-z][\w-]*)", page.read_text())) <= targets


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_modules_exist(page: Path) -> None:
    """Modules that are run with ``python -m``, or named as Muster's."""
    text = page.read_text()
    said = set(re.findall(r"python\s-m\s([\w.]+)", text))
    said |= {
        name
        for span in spans(page)
        for name in re.findall(r"^(muster\.(?:actors|gateway|placement|spark)(?:\.\w+)+)", span)
    }
    assert not {name for name in said if name not in PROPERTIES and not exists(name)}


def exists(name: str) -> bool:
    """Return whether it is a module or package of the repository, a name in one, or an installed third-party module."""
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    holder, _, attribute = name.rpartition(".")
    if not holder:
        return importlib.util.find_spec(name) is not None
    folder = ROOT / holder.replace(".", "/")
    sources = [folder.with_suffix(".py"), folder / "__init__.py"]
    return any(re.search(rf"\b{attribute}\b", source.read_text()) for source in sources if source.exists())


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_properties_exist(page: Path) -> None:
    """Properties that are set on the command line, or that begin like one of Muster's."""
    said = set(re.findall(r"--set ([a-z][\w.]*)=", page.read_text()))
    assert said <= PROPERTIES
