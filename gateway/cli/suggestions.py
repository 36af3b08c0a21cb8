"""Suggestions of the command, group or topic that was meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import click

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.help import with_own_lines
from muster.gateway.client.errors import MusterError

_ALIKE = 0.8
"""Similarity of names, for difflib."""
_MAX_NAMES = 5000
"""Names that are compared; of 100,000, difflib takes seconds."""
_DIGITS = re.compile(r"\d+")
_SENTENCE = 1000
"""Maximum length of the text for a command, in characters."""
_VERBOSE = ("-v", "--verbose")


class Commands(click.Group):
    """Group whose error for an unknown command names similar ones, whose help cuts no text, and that shows errors."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with_own_lines(self)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(with_own_lines(cmd), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}.{meant(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry out the command. Raises CliError, which click shows, for any error of the client."""
        try:
            return super().invoke(ctx)
        except click.ClickException:
            raise
        except MusterError as error:
            raise CliError(error.message) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command's help, in as many lines as it needs: click cuts it."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, each.get_short_help_str(_SENTENCE)) for name, each in commands if each and not each.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def meant(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean groups?``; empty if nothing is close."""
    close = get_close_matches(name.lower(), list(known), n=2)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def similar(name: str, known: Callable[[], Iterable[str]]) -> str:
    """Return ``; did you mean readers?``; empty if no name is close, too many are known, or ``known`` raises CliError.

    A name with another number (``job-12`` for ``job-1``) is not close.
    """
    try:
        all_names = [*known()]
    except MusterError:
        return ""
    if len(all_names) > _MAX_NAMES:
        return ""
    names = {each.lower(): each for each in all_names if not _differ_in_numbers(name, each)}
    close = [names[each] for each in get_close_matches(name.lower(), names, n=2, cutoff=_ALIKE)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _differ_in_numbers(one: str, other: str) -> bool:
    front, *numbers = _DIGITS.split(one)
    return bool(numbers) and [front, *numbers] == _DIGITS.split(other)


def not_found(kind: str, name: str, known: Callable[[], Iterable[str]]) -> CliError:
    """Return the error for a ``group`` or ``topic`` that does not exist."""
    return CliError(f"there is no {kind} {name}{similar(name, known) or f'; see muster {kind}s list'}")


def with_verbose_first(arguments: list[str]) -> list[str]:
    """Move ``-v`` and ``--verbose``, options of ``muster``, before the command; not from behind ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if not any(each in _VERBOSE for each in arguments[:end]):
        return arguments
    return [_VERBOSE[0], *(each for each in arguments[:end] if each not in _VERBOSE), *arguments[end:]]
