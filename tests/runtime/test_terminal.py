"""Output to a terminal or a pipe, and that all of it passes actors/runtime/terminal.py and rich_console.py."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from rich.table import Table
from rich.text import Text

from muster.actors.runtime import rich_console, terminal
from muster.gateway.cli.main import cli
from muster.gateway.cli.names import NAME

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = {ROOT / "actors/runtime/terminal.py", ROOT / "actors/runtime/rich_console.py"}
HOLDER = ROOT / "actors/faults/holder.py"
"""Runs without Muster's modules, and prints a pid."""
PASSING_BY = re.compile(
    r"print|(click\.)?(echo|secho|echo_via_pager)|sys\.(__)?(stdout|stderr)(__)?(\.buffer)?\.(write|writelines)"
    r"|(rich\.)?(console\.)?Console|RichHandler|logging\.Formatter"
)
PATHS = {
    *((f"log {command}", "what") for command in ("dump", "replay", "verify")),
    *((command, "directory") for command in ("up", "doctor", "backup", "restore")),
    *((command, "sets") for command in ("up", "doctor", "backup", "restore", "zookeeper secure", "zookeeper unsecure")),
}
"""Arguments that may contain a path, whose bytes are arbitrary."""
NAMES = (
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "群組",
    "مجموعة",
    "🚀",
    "\u202etxt",
    "a\rb",
    "\udcff",
    ":smile: [red]",
    "\x9b31m",
    "g" * 249,
)


@pytest.mark.parametrize("package", ["actors", "gateway", "placement", "spark", "examples/demo"])
def test_nothing_passes_by(package: str) -> None:
    files = sorted(set((ROOT / package).rglob("*.py")) - OUTPUT - {HOLDER})
    wrong = [f"{file.relative_to(ROOT)}:{line} calls {name}" for file in files for name, line in calls(file)]
    assert not wrong


def calls(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Call) and PASSING_BY.fullmatch(name := ast.unparse(node.func)):
            yield name, node.lineno


@pytest.mark.parametrize("text", ["print('x')", "click.echo('x')", "sys.stdout.buffer.write(b'')", "Console(width=3)"])
def test_what_would_pass_by_is_seen(text: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(text)
    assert list(calls(tmp_path / "module.py"))


def parameters(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from parameters(inner, (*path, name))
    yield from ((" ".join(path), parameter) for parameter in command.params)


def test_every_text_on_the_command_line_is_read_whatever_the_locale() -> None:
    plain = {(path, each.name) for path, each in parameters(cli) if each.type is click.STRING}
    assert plain == PATHS


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_printable_line_in_any_encoding(name: str, encoding: str) -> None:
    shown = terminal.printable(name, encoding)
    assert shown.isprintable()
    assert shown.encode(encoding).decode(encoding) == shown
    assert terminal.printable(shown, encoding) == shown
    if name.isprintable() and encoding == "utf-8":
        assert shown == name


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_guard_holds_whatever_writes(encoding: str) -> None:
    """A traceback, a log, a library's print; each in its own process."""
    script = """
import logging, sys
from muster.actors.runtime import rich_console, terminal
terminal.guard()
names = ("\\x1b[31mred", "群\\x07", "\\u202e")
handler = logging.StreamHandler()
handler.setFormatter(terminal.LogFormatter())
logging.getLogger().addHandler(handler)
for name in names:
    print("printed", name)
    sys.stdout.writelines([name, "\\n"])
    logging.warning("logged %s\\nnot a line", name)
    rich_console.console().print("in a console", name)
raise ValueError(" ".join(names))
"""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "FORCE_COLOR": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=False)
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert all(line.isprintable() for line in f"{out}\n{err}".split("\n")), out + err
    assert out.splitlines()[:3] == [r"printed \x1b[31mred", r"\x1b[31mred", r"in a console \x1b[31mred"]
    assert r"logged \x1b[31mred\nnot a line" in err.splitlines()
    assert err.splitlines()[-1].startswith(r"ValueError: \x1b[31mred")
    assert ("群" if encoding == "utf-8" else r"\u7fa4") in out


def test_a_traceback_in_the_log_keeps_its_lines() -> None:
    try:
        raise ValueError("\x1b[31m\nred")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "", 1, "a\nb", None, sys.exc_info())
    text = terminal.LogFormatter("%(message)s").format(record)
    assert text.splitlines()[0] == r"a\nb"
    assert text.splitlines()[-2:] == [r"ValueError: \x1b[31m", "red"]


def test_json_is_exact() -> None:
    value = {name: [name, "\x7f\x00\x85"] for name in NAMES}
    script = (
        "import json, sys; from muster.actors.runtime import terminal; "
        "terminal.json_text(json.dumps(eval(sys.stdin.read())))"
    )
    for encoding in ("ascii", "utf-8"):
        environment = {
            **os.environ,
            "PYTHONIOENCODING": f"{encoding}:surrogatepass" if encoding == "utf-8" else encoding,
        }
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env=environment, input=ascii(value).encode(), capture_output=True
        )
        assert json.loads(done.stdout) == value, done.stderr
    with pytest.raises(ValueError, match="not ASCII"):
        terminal.json_text(json.dumps("é", ensure_ascii=False))


COLUMNS = ("GROUP", "MEMBER", *(f"COLUMN {number}" for number in range(10)))
ROW = ("中" * 100, "m" * 249, *(f"value {number} of many words" for number in range(10)))


def table(width: int | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Print a table to a pipe, or to a terminal of that width."""
    out = io.StringIO()
    if width is not None:
        monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width or 40))  # that of a terminal elsewhere
    monkeypatch.setenv("TERM", "dumb")
    console = rich_console.console(file=out)
    if width is not None:
        console.width = width
    rich_console.print_table(console, COLUMNS, [ROW, ROW], [False] * len(COLUMNS))
    return out.getvalue()


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    lines = table(None, monkeypatch).splitlines()
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).split() for line in lines] == [
        " ".join(texts).split() for texts in (COLUMNS, ROW, ROW)
    ]


def test_no_line_in_a_pipe_ends_with_blanks() -> None:
    out = io.StringIO()
    rich_console.print_table(
        rich_console.console(file=out), ["A", "B"], [["long", "b"], ["a", "longer"]], [False, False]
    )
    assert out.getvalue() == "A     B\nlong  b\na     longer\n"


def test_wide_letters_and_numbers_are_aligned_as_rich_does() -> None:
    rows = [["群組", "1", "x"], ["é", "1000", ""], [NAMES[0], "-", "🚀"], ["g", "22", "y z"]]
    shown = ("GROUP", "LAG", "NOTE"), rows, (False, True, False)
    ours, richs = io.StringIO(), io.StringIO()
    rich_console.print_table(rich_console.console(file=ours), *shown)
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for column, right in zip(shown[0], shown[2], strict=True):
        table.add_column(column, justify="right" if right else "left")
    for row in rows:
        table.add_row(*(Text(terminal.printable(cell, "utf-8")) for cell in row))
    rich_console.console(file=richs).print(table)
    assert ours.getvalue().splitlines() == [line.rstrip() for line in richs.getvalue().splitlines()]


def test_a_row_costs_few_calls() -> None:
    """10,000 groups took rich five seconds of processor time: 2,000 calls a row."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    rows = [[f"group-{number}", "Empty", "classic", "", "0", str(number)] for number in range(1_000)]
    console = rich_console.console(file=io.StringIO())
    sys.setprofile(count)
    try:
        rich_console.print_table(console, ["A", "B", "C", "D", "E", "F"], rows, [False] * 5 + [True])
    finally:
        sys.setprofile(None)
    assert calls < 50 * len(rows)


@pytest.mark.parametrize("width", [250, 80, 20])
def test_on_a_terminal_nothing_is_lost(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = table(width, monkeypatch)
    for text in (*COLUMNS, *ROW):
        for letter in set(text) - {" "}:
            assert shown.count(letter) >= text.count(letter)
    assert "…" not in shown
    assert shown.count("中") == 200
    assert shown.count("m") >= 498


def test_a_terminal_too_narrow_for_the_columns_has_a_line_for_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.rstrip() for line in table(80, monkeypatch).splitlines()]
    assert " COLUMN 9  value 9 of many words" in lines
    assert lines.count("") == 1, "between the rows"


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(("more", "shown"), [({}, r"\u7fa4\xe9"), ({"PYTHONIOENCODING": "utf-8"}, "群é")])
def test_a_name_that_the_locale_cannot_read_is_read(more: dict[str, str], shown: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "muster.gateway.cli.main", "spark", "群é"],
        cwd=ROOT,
        env={**os.environ, **C_LOCALE, **more},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr.startswith(f"muster: Invalid value for 'JOB': '{shown}' is not one of ")
    assert done.returncode == 2


def test_bytes_that_are_no_name_are_wrong_usage() -> None:
    with pytest.raises(click.BadParameter, match="not UTF-8"):
        NAME.convert("\udcff", None, None)
