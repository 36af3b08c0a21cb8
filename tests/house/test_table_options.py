"""Each command that prints a table has ``--wide`` and ``--json``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from muster.gateway.cli.main import cli


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


def prints_a_table(callback: Callable[..., Any]) -> bool:
    """Whether the function, or one of its module that it names, directly or not, calls ``print_table``."""
    found = inspect.unwrap(callback)
    tree = ast.parse(inspect.getsource(inspect.getmodule(found) or found))
    functions = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    reached, left = set[str](), [found.__name__]
    while left:
        if (name := left.pop()) in functions and name not in reached:
            reached.add(name)
            left += [node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)]
        elif name == "print_table":
            return True
    return False


TABLES = {path: command for path, command in leaves(cli) if command.callback and prints_a_table(command.callback)}


def test_tables_are_found() -> None:
    assert {"groups list", "groups describe", "mapping check", "fault list", "doctor", "log replay"} <= TABLES.keys()
    assert {"groups delete", "topics create", "acls add", "backup"}.isdisjoint(TABLES)


@pytest.mark.parametrize("path", sorted(TABLES))
def test_it_has_both_options(path: str) -> None:
    given = {option for parameter in TABLES[path].params for option in parameter.opts}
    assert {"--wide", "--json"} <= given
