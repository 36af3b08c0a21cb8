"""Help of every command on a terminal of 80 columns: nothing is cut, and examples can be copied."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from muster.gateway.cli.lifecycle.host import host
from muster.gateway.cli.main import cli
from muster.gateway.cli.numbers import Real, Whole

COLUMNS = 80


def contexts(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=COLUMNS)
    yield context
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from contexts(found, inner, context)


ALL = [*contexts(cli, "muster"), *contexts(host, "host")]


@pytest.mark.parametrize("context", ALL, ids=lambda context: context.command_path)
def test_help_fits_80_columns(context: click.Context) -> None:
    lines = context.get_help().splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert [line for line in lines if line.endswith("...") and not line.startswith("Usage:")] == [], "a cut text"
    assert [line for line in lines if "`" in line] == [], "marks of reStructuredText"
    of_types = ("RANGE", "INTEGER", "FLOAT", "x<", "x>")
    assert [line for line in lines if any(word in line for word in of_types)] == [], "gateway/cli/numbers.py"
    assert [line for line in lines if "Example:" in line.strip() and line.strip() != "Example:"] == [], "wrapped"


@pytest.mark.parametrize("context", ALL, ids=lambda context: context.command_path)
def test_every_option_has_a_text(context: click.Context) -> None:
    options = [each for each in context.command.params if isinstance(each, click.Option) and not each.hidden]
    assert [each.opts for each in options if not each.help] == []


@pytest.mark.parametrize(
    ("of", "text"), [(Whole(1, 3), "4"), (Whole(1), "0"), (Whole(1), "1.5"), (Real(is_open=True), "0"), (Real(), "x")]
)
def test_numbers_beyond_their_bounds_are_refused(of: Whole | Real, text: str) -> None:
    with pytest.raises(click.BadParameter, match=" is not "):
        of.convert(text, None, None)


def test_numbers() -> None:
    assert (Whole(1, 3).convert("3", None, None), Real(0.2, 4).convert("0.25", None, None)) == (3, 0.25)
