"""Options of commands that take the properties of ``muster up``; :mod:`muster.gateway.cli.properties` reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def with_properties(config: str = "The property file of muster up.") -> Callable[[F], F]:
    """Add the options ``--config`` and ``--set``, given as ``file`` and ``sets``. ``config`` is the help of the
    first."""

    def add(command: F) -> F:
        file = click.Path(exists=True, dir_okay=False, path_type=Path)
        overriding = "A property; overrides the file."
        command = click.option("--set", "sets", multiple=True, metavar="PROPERTY=VALUE", help=overriding)(command)
        return click.option("--config", "file", type=file, help=config)(command)

    return add
