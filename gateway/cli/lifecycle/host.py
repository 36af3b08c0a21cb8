"""What the start-up commands of a host need (see cluster.yaml). Run as ``python -m gateway.cli.lifecycle.host``."""

from __future__ import annotations

import shlex

import click

from actors.runtime import terminal
from actors.runtime.java import java_environment


@click.group()
def host() -> None:
    """Help for the start-up commands of a host."""


@host.command(epilog='Example: eval "$(python -m gateway.cli.lifecycle.host java)"')
def java() -> None:
    """Print shell commands that put a Java for Spark's workers into the environment."""
    for name, value in java_environment().items():
        terminal.for_shell(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    host()
