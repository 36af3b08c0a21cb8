"""Options of Kafka's own tools that are commands or arguments of ``muster``, or that a command cannot take."""

from __future__ import annotations

from collections.abc import Sequence

import click

from muster.gateway.cli.running import RunningMuster

_ARGUMENTS = {"--group": ("group", "groups"), "--topic": ("name", "topic")}
"""Names of the arguments that stand for these options."""
_OVER_KAFKA = {"muster groups lag": "muster groups describe GROUP"}
"""Commands that show the same over Kafka's protocol."""


def remedy(error: click.NoSuchOption, arguments: Sequence[str]) -> str | None:
    """Return what to use instead of an option of Kafka's tools; None for others. ``arguments``: those of muster."""
    if error.ctx is None:
        return None
    context, option = error.ctx, error.option_name
    if option == "--bootstrap-server":
        return _without_bootstrap_server(context)
    command = context.command
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.name in _ARGUMENTS.get(option, ()):
            name = str(parameter.name).upper()
            return f"{name} is an argument: {context.command_path} {_value(option, arguments) or name}."
    return _command(context, option, arguments)


def _without_bootstrap_server(context: click.Context) -> str | None:
    if not any(isinstance(parameter, RunningMuster) for parameter in context.command.params):
        return None
    over_kafka = _OVER_KAFKA.get(context.command_path)
    more = f"; with --bootstrap-server use {over_kafka}" if over_kafka else ""
    return f"{context.command_path} needs more than Kafka's protocol: use --storage or --address{more}."


def _command(context: click.Context, option: str, arguments: Sequence[str]) -> str | None:
    """Return the command of that name, in this group of commands or in that of this command."""
    for place in (context, context.parent):
        if place is None or place.parent is None or not isinstance(place.command, click.Group):
            continue
        name = option.removeprefix("--")
        if (found := place.command.get_command(place, name)) is None:
            continue
        wanted = [each for each in found.params if isinstance(each, click.Argument) and each.required]
        values = [_of_argument(str(each.name), arguments) for each in wanted]
        return f"{name} is a command: {' '.join((place.command_path, name, *values))}."
    return None


def _of_argument(name: str, arguments: Sequence[str]) -> str:
    """Return the value of the option that the argument stands for, or the argument's name."""
    values = (_value(option, arguments) for option, names in _ARGUMENTS.items() if name in names)
    return next(filter(None, values), name.upper())


def _value(option: str, arguments: Sequence[str]) -> str | None:
    """Return the value that the option was given, as ``--group G`` or ``--group=G``."""
    for at, each in enumerate(arguments):
        if each == option and at + 1 < len(arguments) and not arguments[at + 1].startswith("-"):
            return arguments[at + 1]
        if each.startswith(f"{option}="):
            return each.partition("=")[2] or None
    return None
