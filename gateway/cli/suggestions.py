"""Groups of commands that suggest the one that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

_VERBOSE = ("-v", "--verbose")


class Commands(click.Group):
    """Group whose error for an unknown command names similar ones."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}.{meant(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


def meant(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean groups?``; empty if nothing is close."""
    close = get_close_matches(name.lower(), list(known), n=2)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def with_verbose_first(arguments: list[str]) -> list[str]:
    """Move ``-v`` and ``--verbose``, options of ``muster``, before the command; not from behind ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if not any(each in _VERBOSE for each in arguments[:end]):
        return arguments
    return [_VERBOSE[0], *(each for each in arguments[:end] if each not in _VERBOSE), *arguments[end:]]
