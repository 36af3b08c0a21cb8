"""Groups of commands that import a command only when it runs: help, completion and errors stay fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from muster.gateway.cli.help import with_own_lines
from muster.gateway.cli.suggestions import Commands


class Command(NamedTuple):
    """A command that has not been imported."""

    target: str
    """``MODULE:ATTRIBUTE``, in the package ``muster.gateway.cli``."""
    summary: str
    """First sentence of its help. tests/cli/test_help.py compares them."""


class LazyCommands(Commands):
    """A group of such commands."""

    def __init__(
        self,
        *arguments: Any,
        lazy: Mapping[str, Command],
        former_names: Mapping[str, str] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        """Take the commands. ``former_names``, to present ones, still run, but are not in help, completion or
        suggestions."""
        super().__init__(*arguments, **options)
        self.lazy = lazy
        self.former_names = former_names

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return command.name if command else name, command, rest

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self.lazy.get(self.former_names.get(cmd_name, cmd_name))
        if found is None:
            return None
        module, _, attribute = found.target.partition(":")
        command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
        return with_own_lines(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=command.summary)
            for name, command in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
