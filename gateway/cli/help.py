"""Help of commands in 80 columns: examples that can be copied, and whole sentences in lists of commands."""

from __future__ import annotations

import inspect

import click

_EXAMPLE = "Example: "
_NOT_WRAPPED = "\b\n"
"""Click's mark of a paragraph whose lines stay as they are."""


def with_own_lines(command: click.Command) -> click.Command:
    """Give the example in the command's epilog, ``Example: muster ...``, a line of its own, which is never wrapped.

    Repeating it changes nothing.
    """
    epilog = inspect.cleandoc(command.epilog or "")
    if epilog.startswith(_EXAMPLE):
        example, newline, rest = epilog.removeprefix(_EXAMPLE).partition("\n")
        command.epilog = f"{_NOT_WRAPPED}{_EXAMPLE.strip()}\n  {example}{newline}{rest}"
    return command
